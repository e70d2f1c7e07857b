#include "dataset.hpp"

#include "random.hpp"

#include <charconv>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string_view>

#include <hvd/io.hpp>
#include <zlib.h>

namespace digits {
namespace {

constexpr int kDarkest = 16;
constexpr int kFields = kPixels + 1;
constexpr std::uint64_t kSplitSeed = 2024;

using Row = std::vector<std::uint8_t>;  // kFields numbers

struct CloseGz {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzFile = std::unique_ptr<gzFile_s, CloseGz>;

std::uint8_t parse_field(std::string_view text, int most) {
  int value = 0;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || stop != text.data() + text.size() || value < 0 || value > most) {
    throw DataError('"' + std::string(text) + "\" is not an integer from 0 to " +
                    std::to_string(most));
  }
  return static_cast<std::uint8_t>(value);
}

Row parse_row(std::string_view line) {
  Row row;
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

// Reads the next line, without its end. Returns nullopt at the end of the file.
std::optional<std::string> read_line(gzFile file) {
  char buffer[1024] = {};  // a good row has at most 194 characters
  const bool any = gzgets(file, buffer, sizeof buffer) != nullptr;
  std::string line = buffer;
  if (!line.ends_with('\n')) {  // the last line, or a file that ends too early
    int code = Z_OK;
    const char* reason = gzerror(file, &code);
    if (code < 0) throw DataError(std::string("cannot read on: ") + reason);
  }
  if (!any) return std::nullopt;
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  return line;
}

// Reads all rows, concatenated.
Row read_rows(const std::string& path) {
  const GzFile file(gzopen(path.c_str(), "rb"));
  if (!file) throw DataError(path + ": cannot open the file");
  Row rows;
  int number = 1;
  try {
    for (; const auto line = read_line(file.get()); ++number) {
      const Row row = parse_row(*line);
      rows.insert(rows.end(), row.begin(), row.end());
    }
  } catch (const DataError& error) {
    throw DataError(path + ':' + std::to_string(number) + ": " + error.what());
  }
  if (rows.empty()) throw DataError(path + ": no rows in it");
  return rows;
}

Dataset make_dataset(const Row& rows) {
  const auto count = static_cast<Eigen::Index>(rows.size() / kFields);
  Dataset dataset;
  dataset.images.resize(kPixels, count);
  for (Eigen::Index i = 0; i < count; ++i) {
    const std::uint8_t* row = rows.data() + i * kFields;
    for (int pixel = 0; pixel < kPixels; ++pixel) {
      dataset.images(pixel, i) = static_cast<double>(row[pixel]) / kDarkest;
    }
    dataset.labels.push_back(row[kPixels]);
  }
  return dataset;
}

Dataset select(const Dataset& all, const std::vector<int>& which) {
  Dataset dataset;
  dataset.images = all.images(Eigen::all, which);
  for (const int i : which) dataset.labels.push_back(all.labels[static_cast<std::size_t>(i)]);
  return dataset;
}

}  // namespace

Dataset share_dataset(const std::string& path) {
  // Rank 0 reads. All ranks get the rows, or an error.
  return make_dataset(hvd::on_rank0([&] { return read_rows(path); }, "data"));
}

Split split_dataset(const Dataset& all, bool with_validation) {
  std::vector<int> order(static_cast<std::size_t>(all.size()));
  std::iota(order.begin(), order.end(), 0);
  SplitMix64 random(kSplitSeed);
  shuffle(order, random);
  const auto test_end = order.begin() + static_cast<std::ptrdiff_t>(order.size() / 5);
  const auto validation_end =
      test_end + static_cast<std::ptrdiff_t>(with_validation ? order.size() / 10 : 0);
  return {select(all, {validation_end, order.end()}), select(all, {test_end, validation_end}),
          select(all, {order.begin(), test_end})};
}

}  // namespace digits
