// The data set: images of 8x8 pixels, labelled with the digits that they show.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include <Eigen/Core>

namespace digits {

inline constexpr int kPixels = 64;
inline constexpr int kClasses = 10;

// Column i is image i, with pixels from 0 to 1.
struct Dataset {
  Eigen::MatrixXd images;
  std::vector<int> labels;

  int size() const { return static_cast<int>(labels.size()); }
};

// An error in the file. The text begins with file and line: "digits.csv.gz:17: …".
struct DataError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Reads a CSV file, gzipped or not, on rank 0, and returns the data on all ranks. A row is 64
// pixels from 0 to 16, then the label. Errors: DataError on rank 0, hvd::Error (HVD_ERROR_ROOT) on
// others.
Dataset share_dataset(const std::string& path);

struct Split {
  Dataset training;
  Dataset validation;  // empty, or a tenth
  Dataset test;        // a fifth, chosen by a shuffle
};

// Splits the data in the same way for every program, run and number of ranks.
Split split_dataset(const Dataset& all, bool with_validation);

}  // namespace digits
