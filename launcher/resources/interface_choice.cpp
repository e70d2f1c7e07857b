#include "resources/interface_choice.hpp"

#include "common/text.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hvdrun {
namespace {

constexpr std::string_view kLoopback = "lo";

std::vector<std::string_view> split(std::string_view names) {
  std::vector<std::string_view> list;
  while (true) {
    const auto comma = std::min(names.find(','), names.size());
    list.push_back(names.substr(0, comma));
    if (comma == names.size()) return list;
    names.remove_prefix(comma + 1);
  }
}

bool take_first(std::string_view& text, char first) {
  if (!text.starts_with(first)) return false;
  text.remove_prefix(1);
  return true;
}

void add_once(std::vector<std::string>& list, const std::string& name) {
  if (std::ranges::find(list, name) == list.end()) list.push_back(name);
}

}  // namespace

bool is_plain_choice(std::string_view choice) {
  return !choice.starts_with('^') && !choice.starts_with('=');
}

Result<std::vector<std::string>> choose_interfaces(std::string_view choice,
                                                   const std::vector<std::string>& interfaces) {
  std::string_view text = choice;
  const bool excludes = take_first(text, '^');
  const bool is_exact = take_first(text, '=');
  const auto names = split(text);
  const auto begins_with = [is_exact](const std::string& interface, std::string_view name) {
    return interface == name || (!is_exact && !name.empty() && interface.starts_with(name));
  };
  std::vector<std::string> chosen;
  if (excludes) {
    for (const auto& interface : interfaces)
      if (std::ranges::none_of(names, [&](auto name) { return begins_with(interface, name); }))
        add_once(chosen, interface);
    if (chosen.size() > 1) std::erase(chosen, kLoopback);
  } else {
    for (const auto name : names) {
      const auto before = chosen.size();
      const bool is_whole = std::ranges::find(interfaces, name) != interfaces.end();
      for (const auto& interface : interfaces)
        if (is_whole ? interface == name : begins_with(interface, name))
          add_once(chosen, interface);
      if (chosen.size() == before && !is_whole)
        return fail(fmt::format("no network interface {} (--network-interface); it has {}",
                                quote_if_needed(name), fmt::join(interfaces, ", ")),
                    kExitUsage);
    }
  }
  if (!chosen.empty()) return chosen;
  return fail(fmt::format("no network interface that --network-interface {} leaves; it has {}",
                          quote_if_needed(choice), fmt::join(interfaces, ", ")),
              kExitUsage);
}

}  // namespace hvdrun
