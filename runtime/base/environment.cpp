#include "base/environment.hpp"

#include <charconv>
#include <cstdlib>

namespace libhvd {

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
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

}  // namespace libhvd
