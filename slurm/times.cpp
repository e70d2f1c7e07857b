#include "slurm/times.hpp"

#include <charconv>
#include <cstdint>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr std::int64_t kLongest = std::int64_t{100} * 366 * 86400;  // a century, in seconds

// Takes a number off the start of the text. Returns nullopt if it does not begin with one, or the
// number is above kLongest.
std::optional<std::int64_t> take_duration_part(std::string_view& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0 || number > kLongest) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

std::tm local(std::time_t moment) {
  std::tm parts{};
  ::localtime_r(&moment, &parts);
  return parts;
}

}  // namespace

std::optional<std::chrono::seconds> parse_duration(std::string_view text) {
  std::int64_t days = 0;
  std::int64_t rest = 0;
  int fields = 0;
  while (true) {
    const auto number = take_duration_part(text);
    if (!number) return std::nullopt;
    if (!text.empty() && text.front() == '-' && fields == 0 && days == 0) {
      days = *number;
    } else {
      rest = rest * 60 + *number;
      if (++fields > 3 || rest > kLongest) return std::nullopt;
    }
    if (text.empty()) break;
    if (text.front() != (fields == 0 ? '-' : ':')) return std::nullopt;
    text.remove_prefix(1);
  }
  if (fields < 2) return std::nullopt;
  return std::chrono::seconds(days * 86400 + rest);
}

std::optional<std::time_t> parse_moment(std::string_view text) {
  const auto number = take_duration_part(text);
  if (!number || *number == 0 || !text.empty()) return std::nullopt;
  return static_cast<std::time_t>(*number);
}

std::string duration_text(std::chrono::seconds duration) {
  const auto all = duration.count() < 0 ? 0 : duration.count();
  const auto days = all / 86400;
  const auto hours = all / 3600 % 24;
  const auto minutes = all / 60 % 60;
  const auto seconds = all % 60;
  if (days > 0) return fmt::format("{}-{:02}:{:02}:{:02}", days, hours, minutes, seconds);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, seconds);
  return fmt::format("{}:{:02}", minutes, seconds);
}

std::string moment_text(std::time_t moment, std::time_t now) {
  const std::tm then = local(moment);
  const std::tm today = local(now);
  const bool same_day = then.tm_year == today.tm_year && then.tm_yday == today.tm_yday;
  auto clock = fmt::format("{:02}:{:02}:{:02}", then.tm_hour, then.tm_min, then.tm_sec);
  if (same_day) return clock;
  return fmt::format("{}-{:02}-{:02} {}", then.tm_year + 1900, then.tm_mon + 1, then.tm_mday,
                     clock);
}

}  // namespace hvdrun
