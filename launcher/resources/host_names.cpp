#include "resources/host_names.hpp"

#include <algorithm>
#include <cctype>

namespace hvdrun {
namespace {

bool is_loopback(std::string_view host) {
  const bool is_127 =
      host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "localhost" || host == "::1" || is_127;
}

bool is_address(std::string_view host) {
  return host.find(':') != std::string_view::npos ||
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

std::string_view first_label(std::string_view host) {
  return is_address(host) ? host : host.substr(0, host.find('.'));
}

bool is_short(std::string_view host) {
  return first_label(host) == host;
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return lower;
}

bool are_names_of_one_host(std::string_view one, std::string_view other) {
  const std::string first = lower_case(one);
  const std::string second = lower_case(other);
  if (first == second) return true;
  return !first.empty() && (is_short(first) || is_short(second)) &&
         first_label(first) == first_label(second);
}

bool names_this_machine(std::string_view host, std::string_view machine_name) {
  return is_loopback(lower_case(host)) || are_names_of_one_host(host, machine_name);
}

HostNames::HostNames(const std::vector<std::string>& names)
    : names_(names), used_(names.size(), false) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string name = lower_case(names[i]);
    by_name_[name].push_back(i);
    if (is_loopback(name)) by_name_["localhost"].push_back(i);
    (is_short(name) ? short_ : by_label_)[std::string(first_label(name))].push_back(i);
  }
}

bool HostNames::mark(const std::unordered_map<std::string, std::vector<std::size_t>>& index,
                     const std::string& key) {
  const auto found = index.find(key);
  if (found == index.end()) return false;
  for (const auto i : found->second) used_[i] = true;
  return true;
}

bool HostNames::find(std::string_view name) {
  const std::string lower = lower_case(name);
  const std::string label(first_label(lower));
  bool found = mark(by_name_, lower);
  found = mark(short_, label) || found;
  if (is_short(lower)) found = mark(by_label_, label) || found;
  return found;
}

bool HostNames::contains(const Host& host) {
  bool found = find(host.name);
  if (host.address != host.name) found = find(host.address) || found;
  if (host.is_this_machine) found = find("localhost") || found;
  return found;
}

std::vector<std::string> HostNames::unused() const {
  std::vector<std::string> unused;
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (!used_[i]) unused.push_back(names_[i]);
  return unused;
}

}  // namespace hvdrun
