#include "commands/scale_numbers.hpp"

#include "common/text.hpp"

#include <algorithm>
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

std::string size_text(Unit unit, int size) {
  return plural(size, unit == Unit::ranks ? "rank" : "device");
}

std::string unit_name(Unit unit) {
  return unit == Unit::ranks ? "ranks" : "devices";
}

std::string date_text(std::time_t date) {
  std::tm parts{};
  ::gmtime_r(&date, &parts);
  char text[32]{};
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string hardware_text(const HostHardware& host) {
  std::string text = host.host + ": " + plural(host.cores, "core");
  for (auto gpu = host.gpus.begin(); gpu != host.gpus.end();) {
    const auto other =
        std::find_if(gpu, host.gpus.end(), [&](const auto& name) { return name != *gpu; });
    text += fmt::format(", {} × {}", other - gpu, gpu->empty() ? "GPU" : *gpu);
    gpu = other;
  }
  return text;
}

}  // namespace hvdrun::scale
