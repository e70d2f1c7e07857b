#include "model/host_request.hpp"

#include "base/host_list.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr auto npos = std::string_view::npos;

// Returns whether the text is an address ("::1", "fe80::1%eth0") and not a range such as 1-4.
bool is_ipv6_address(std::string_view text) {
  // ssh would read a leading "-" as an option.
  return text.find(':') != npos && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == ':' || c == '.' || c == '%' || c == '-' || c == '_';
         });
}

// Cuts "user@" off the front. Returns an empty name if there is none.
Result<std::string> take_user(std::string_view& rest, std::string_view whole) {
  const auto at = rest.find('@');
  if (at == npos) return std::string();
  const std::string_view user = rest.substr(0, at);
  rest.remove_prefix(at + 1);
  if (!is_host_name(user))
    return usage_error(fmt::format("{} has no user's name before the \"@\"", quote(whole)));
  return std::string(user);
}

// Cuts the names off the front. The rest is then empty or ":slots".
Result<std::vector<std::string>> take_names(std::string_view& rest, std::string_view whole) {
  if (rest.starts_with('[')) {
    const auto close = rest.find(']');
    const auto address = rest.substr(1, close == npos ? npos : close - 1);
    if (close != npos && is_ipv6_address(address)) {
      rest.remove_prefix(close + 1);
      return std::vector<std::string>{std::string(address)};
    }
  }
  const auto colon = rest.find(':');
  const auto names = rest.substr(0, colon);
  rest.remove_prefix(names.size());
  if (rest.find(':', 1) != npos)
    return usage_error(
        fmt::format("{} has more than one \":\"; put an IPv6 address in brackets: "
                    "[::1]:4",
                    quote(whole)));
  if (names.empty()) return usage_error(fmt::format("{} has no host's name", quote(whole)));
  if (const auto parts = split_host_list(names); parts.size() > 1) {
    const bool is_number = parts[1].find_first_not_of("0123456789") == npos && !parts[1].empty();
    return usage_error(fmt::format(
        "{} names several hosts where one is wanted{}", quote(whole),
        is_number ? fmt::format("; a host with {1} slots is {0}:{1}", parts[0], parts[1]) : ""));
  }
  return expand_host_list(names);
}

Result<std::optional<int>> read_slots(std::string_view rest, std::string_view whole) {
  if (rest.empty()) return std::optional<int>();
  int slots = 0;
  const char* end = rest.data() + rest.size();
  const auto [stop, error] = std::from_chars(rest.data() + 1, end, slots);
  if (rest.front() != ':' || error != std::errc() || stop != end || slots < 1)
    return usage_error(
        fmt::format("{} needs a whole number of slots after the \":\", 1 or more", quote(whole)));
  return std::optional<int>(slots);
}

std::string print_request(const HostRequest& request, const std::string& names) {
  std::string text = request.user.empty() ? "" : request.user + "@";
  text += names.find(':') == npos ? names : "[" + names + "]";
  if (request.slots) text += ":" + std::to_string(*request.slots);
  return text;
}

}  // namespace

Result<std::vector<HostRequest>> parse_host_request(std::string_view text,
                                                    std::string_view source) {
  if (text.empty()) return usage_error("there is a host without a name in the list");
  std::string_view rest = text;
  HVD_TRY(const std::string user, take_user(rest, text));
  HVD_TRY(auto names, take_names(rest, text));
  HVD_TRY(const auto slots, read_slots(rest, text));
  std::vector<HostRequest> requests;
  requests.reserve(names.size());
  for (auto& name : names)
    requests.push_back(
        {std::move(name), slots, user, std::nullopt, std::nullopt, std::string(source)});
  return requests;
}

Result<std::vector<HostRequest>> parse_host_requests(std::string_view text,
                                                     std::string_view source) {
  std::vector<HostRequest> all;
  for (auto entry : split_host_list(text)) {
    while (entry.ends_with('\r')) entry.remove_suffix(1);  // of a file with Windows line ends
    HVD_TRY(auto requests, parse_host_request(entry, source));
    if (requests.size() > kMaxHosts - all.size())
      return usage_error(fmt::format("{} names more than {} hosts, the most that hvdrun takes",
                                     quote(text), kMaxHosts));
    std::move(requests.begin(), requests.end(), std::back_inserter(all));
  }
  return all;
}

std::string fold_host_requests(const std::vector<HostRequest>& requests) {
  std::string text;
  for (auto first = requests.begin(); first != requests.end();) {
    std::vector<std::string> names;
    auto next = first;
    for (; next != requests.end() && next->slots == first->slots && next->user == first->user;
         ++next) {
      const bool is_address = next->name.find(':') != npos;
      if (is_address && !names.empty()) break;
      names.push_back(next->name);
      if (is_address) {
        ++next;
        break;
      }
    }
    // Prints one request per entry, since "a,b:4" would be read as "a" and "b:4".
    std::string folded = fold_hosts(names);
    for (const auto entry : split_host_list(folded))
      text += (text.empty() ? "" : ",") + print_request(*first, std::string(entry));
    first = next;
  }
  return text;
}

}  // namespace hvdrun
