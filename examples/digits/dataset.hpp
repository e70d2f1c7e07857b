// The digits: images of 8x8 pixels and what they show.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include <Eigen/Core>

namespace digits {

inline constexpr int kPixels = 64;
inline constexpr int kClasses = 10;

// Column i is image i, its pixels from 0 to 1.
struct Dataset {
  Eigen::MatrixXd images;
  std::vector<int> labels;

  int size() const { return static_cast<int>(labels.size()); }
};

// What is wrong with the file: "digits.csv.gz:17: …".
struct DataError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Rank 0 reads a CSV file, gzipped or not, and all ranks get it. A row is 64 pixels from 0 to 16,
// then the label. When the file is no good: DataError on rank 0, hvd::Error (HVD_ERROR_ROOT)
// elsewhere.
Dataset share_dataset(const std::string& path);

struct Split {
  Dataset training;
  Dataset validation;  // empty, or a tenth
  Dataset test;        // a fifth, chosen by a shuffle
};

// The same split for every program, run and number of ranks.
Split split_dataset(const Dataset& all, bool with_validation);

}  // namespace digits
