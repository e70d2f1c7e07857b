#include "job/stall_time.hpp"

#include "common/variables.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <system_error>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kUnlessSet{60'000};
constexpr double kLongestS = 1e9;

std::string_view value_of(const std::vector<std::string>& variables, std::string_view name) {
  for (const std::string& variable : variables) {
    const std::string_view text = variable;
    if (text.size() > name.size() && text.starts_with(name) && text[name.size()] == '=')
      return text.substr(name.size() + 1);
  }
  return {};
}

std::optional<double> number_in(const std::vector<std::string>& variables, std::string_view ours) {
  std::string_view text = value_of(variables, ours);
  if (text.empty())
    text =
        value_of(variables, "HOROVOD_" + std::string(ours.substr(std::string_view("HVD_").size())));
  double value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, std::chars_format::fixed);
  if (error != std::errc{} || end != last || !(value >= 0 && value <= kLongestS)) return {};
  return value;
}

milliseconds time_in(const std::vector<std::string>& variables, std::string_view ours) {
  const auto seconds = number_in(variables, ours);
  return seconds ? milliseconds(std::llround(std::ceil(*seconds * 1000))) : kUnlessSet;
}

}  // namespace

milliseconds stall_time(const std::vector<std::string>& variables) {
  if (number_in(variables, HVD_ENV_STALL_CHECK_DISABLE) == 1) return milliseconds(0);
  return time_in(variables, HVD_ENV_STALL_CHECK_TIME);
}

milliseconds join_time(const std::vector<std::string>& variables) {
  if (stall_time(variables).count() == 0) return milliseconds(0);
  return time_in(variables, HVD_ENV_JOIN_TIME);
}

}  // namespace hvdrun
