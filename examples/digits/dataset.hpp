// The data set: images of 8x8 pixels, labelled with the digits that they show. Rank 0 reads the
// file, all ranks get the rows, and every rank splits them in the same way.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numbers>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <Eigen/Core>
#include <hvd/io.hpp>
#include <zlib.h>

namespace digits {

inline constexpr int kPixels = 64;
inline constexpr int kClasses = 10;

// Column i is image i, with pixels from 0 to 1.
struct Dataset {
  Eigen::MatrixXd images;
  std::vector<int> labels;

  int size() const { return static_cast<int>(labels.size()); }
};

// Some of a data set's samples, by index.
using Samples = std::span<const std::int64_t>;

struct Split {
  Dataset training;
  Dataset validation;  // empty, or a tenth
  Dataset test;        // a fifth, chosen by a shuffle
};

// An error in the file. The text begins with file and line: "digits.csv.gz:17: …".
struct DataError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Random numbers that are the same everywhere: SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast
// Splittable Pseudorandom Number Generators", OOPSLA 2014). The distributions and shuffles of the
// standard library return other numbers with another implementation.
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // Returns 0 ... bound-1, all with equal probability: numbers that would make some more likely are
  // drawn again.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t unfair = (0 - bound) % bound;
    while (true) {
      const std::uint64_t number = next();
      if (number >= unfair) return number % bound;
    }
  }

  // Returns a number in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  // Returns a number of mean 0 and variance 1 (Box and Muller).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t state_;
};

// Reads the rows of a CSV file, gzipped or not, on one rank.
class RowReader {
 public:
  static constexpr int kFields = kPixels + 1;
  static constexpr int kDarkest = 16;

  explicit RowReader(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    if (!file_) throw DataError(path + ": cannot open the file");
  }

  // Returns all rows, concatenated: kFields numbers each. Throws DataError.
  std::vector<std::uint8_t> read_all() {
    std::vector<std::uint8_t> rows;
    int number = 1;
    try {
      for (; const auto line = read_line(); ++number) {
        const auto row = parse_row(*line);
        rows.insert(rows.end(), row.begin(), row.end());
      }
    } catch (const DataError& error) {
      throw DataError(path_ + ':' + std::to_string(number) + ": " + error.what());
    }
    if (rows.empty()) throw DataError(path_ + ": no rows in it");
    return rows;
  }

 private:
  struct CloseGz {
    void operator()(gzFile file) const { gzclose(file); }
  };

  // Returns the next line, without its end, or nullopt at the end of the file.
  std::optional<std::string> read_line() {
    char buffer[1024] = {};  // a good row has at most 194 characters
    const bool any = gzgets(file_.get(), buffer, sizeof buffer) != nullptr;
    std::string line = buffer;
    if (!line.ends_with('\n')) {  // the last line, or a file that ends too early
      int code = Z_OK;
      const char* reason = gzerror(file_.get(), &code);
      if (code < 0) throw DataError(std::string("cannot read on: ") + reason);
    }
    if (!any) return std::nullopt;
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    return line;
  }

  static std::vector<std::uint8_t> parse_row(std::string_view line) {
    std::vector<std::uint8_t> row;
    while (true) {
      const std::size_t comma = line.find(',');
      if (row.size() == kFields) throw DataError("more than 64 pixels and a label");
      const bool is_label = row.size() == kPixels;
      row.push_back(parse_field(line.substr(0, comma), is_label ? kClasses - 1 : kDarkest));
      if (comma == std::string_view::npos) break;
      line.remove_prefix(comma + 1);
    }
    if (row.size() != kFields) {
      throw DataError("64 pixels and a label expected, " + std::to_string(row.size()) +
                      " numbers found");
    }
    return row;
  }

  static std::uint8_t parse_field(std::string_view text, int most) {
    int value = 0;
    const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc() || stop != text.data() + text.size() || value < 0 || value > most) {
      throw DataError('"' + std::string(text) + "\" is not an integer from 0 to " +
                      std::to_string(most));
    }
    return static_cast<std::uint8_t>(value);
  }

  std::string path_;
  std::unique_ptr<gzFile_s, CloseGz> file_;
};

// Reads a CSV file, gzipped or not, on rank 0, and returns the data on all ranks. A row is 64
// pixels from 0 to 16, then the label. Errors: DataError on rank 0, hvd::Error (HVD_ERROR_ROOT) on
// others.
inline Dataset share_dataset(const std::string& path) {
  const std::vector<std::uint8_t> rows =
      hvd::on_rank0([&] { return RowReader(path).read_all(); }, "data");
  const auto count = static_cast<Eigen::Index>(rows.size() / RowReader::kFields);
  Dataset dataset;
  dataset.images.resize(kPixels, count);
  for (Eigen::Index i = 0; i < count; ++i) {
    const std::uint8_t* row = rows.data() + i * RowReader::kFields;
    for (int pixel = 0; pixel < kPixels; ++pixel)
      dataset.images(pixel, i) = static_cast<double>(row[pixel]) / RowReader::kDarkest;
    dataset.labels.push_back(row[kPixels]);
  }
  return dataset;
}

// Splits the data in the same way for every program, run and number of ranks.
inline Split split_dataset(const Dataset& all, bool with_validation) {
  std::vector<int> order(static_cast<std::size_t>(all.size()));
  std::iota(order.begin(), order.end(), 0);
  SplitMix64 random(2024);
  for (std::size_t left = order.size(); left > 1; --left)  // Fisher and Yates
    std::swap(order[left - 1], order[random.below(left)]);

  const auto select = [&all](const std::vector<int>& which) {
    Dataset dataset;
    dataset.images = all.images(Eigen::all, which);
    for (const int i : which) dataset.labels.push_back(all.labels[static_cast<std::size_t>(i)]);
    return dataset;
  };
  const auto test_end = order.begin() + static_cast<std::ptrdiff_t>(order.size() / 5);
  const auto validation_end =
      test_end + static_cast<std::ptrdiff_t>(with_validation ? order.size() / 10 : 0);
  return {select({validation_end, order.end()}), select({test_end, validation_end}),
          select({order.begin(), test_end})};
}

}  // namespace digits
