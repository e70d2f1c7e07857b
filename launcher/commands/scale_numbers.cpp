#include "commands/scale_numbers.hpp"

#include <cmath>

#include <fmt/format.h>

namespace hvdrun::scale {

std::string significant(double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value) || size >= 1e9 || (size < 1e-4 && size > 0))
    return fmt::format("{:.3g}", value);
  if (size >= 100 || size == 0) return fmt::format("{:.0f}", value);
  // Digits after the point, so that three are significant.
  const int digits = 2 - static_cast<int>(std::floor(std::log10(size)));
  return fmt::format("{:.{}f}", value, digits);
}

std::string seconds_text(double seconds) {
  return significant(seconds) + " s";
}

std::string percent_text(double fraction) {
  return std::abs(fraction) < 0.0995 && fraction != 0 ? fmt::format("{:.1f} %", 100 * fraction)
                                                      : fmt::format("{:.0f} %", 100 * fraction);
}

}  // namespace hvdrun::scale
