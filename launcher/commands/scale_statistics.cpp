#include "commands/scale_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace hvdrun::scale {
namespace {

bool has_nan(const std::vector<double>& values) {
  return std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
}

}  // namespace

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  if (has_nan(values)) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

std::optional<Figure> figure_of(const std::vector<double>& values) {
  const auto middle = median(values);
  if (!middle) return std::nullopt;
  const int count = static_cast<int>(values.size());
  if (std::isnan(*middle)) return Figure{*middle, *middle, *middle, count};
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return Figure{*middle, *least, *most, count};
}

}  // namespace hvdrun::scale
