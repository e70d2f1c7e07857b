#include "base/process_environment.hpp"

#include "common/variables.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

namespace libhvd {

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

bool is_set(const Environment& environment, const char* name) {
  const auto value = environment(name);
  return value && !value->empty();
}

Result<std::optional<std::int64_t>> read_integer(const Environment& environment, const char* name,
                                                 std::int64_t minimum, std::int64_t maximum) {
  const auto text = environment(name);
  if (!text || text->empty()) return std::optional<std::int64_t>();
  std::int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, code] = std::from_chars(text->data(), end, value);
  if (code != std::errc() || stop != end || value < minimum || value > maximum) {
    return fail(HVD_ERROR_ENVIRONMENT, std::string(name) + "=\"" + *text +
                                           "\" is not an integer from " + std::to_string(minimum) +
                                           " to " + std::to_string(maximum));
  }
  return std::optional<std::int64_t>(value);
}

Result<std::optional<std::chrono::milliseconds>> read_seconds(const Environment& environment,
                                                              const char* name,
                                                              std::chrono::seconds maximum) {
  const auto text = environment(name);
  if (!text || text->empty()) return std::optional<std::chrono::milliseconds>();
  double value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, code] = std::from_chars(text->data(), end, value, std::chars_format::fixed);
  const bool in_range = value >= 0 && value <= static_cast<double>(maximum.count());  // NaN: false
  if (code != std::errc() || stop != end || !in_range) {
    return fail(HVD_ERROR_ENVIRONMENT, std::string(name) + "=\"" + *text +
                                           "\" is not a number of seconds from 0 to " +
                                           std::to_string(maximum.count()));
  }
  return std::optional(std::chrono::milliseconds(std::llround(std::ceil(value * 1000))));
}

std::string host_name(const Environment& environment) {
  if (auto given = environment(HVD_ENV_HOSTNAME); given && !given->empty()) return *given;
  return local_host_name();
}

}  // namespace libhvd
