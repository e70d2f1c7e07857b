// Which names mean the same host. No resolver is used: that could take seconds, and could return
// different answers at different times. Pure functions and a value, for one thread at a time. They
// cannot fail.
#pragma once

#include "model/placement.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace hvdrun {

// Returns the text in lower case: names of hosts do not distinguish case (RFC 4343).
std::string lower_case(std::string_view text);

// Returns whether `host` is a name of this machine: localhost, an address of the loopback network,
// or its own name, as are_names_of_one_host() compares.
bool names_this_machine(std::string_view host, std::string_view machine_name);

// Returns whether two names mean one host: they are equal, or one is the part of the other before
// its first dot.
bool are_names_of_one_host(std::string_view one, std::string_view other);

// The names of --include or --exclude. A short name matches the long one and the other way round,
// and localhost matches this machine.
class HostNames {
 public:
  explicit HostNames(const std::vector<std::string>& names);

  // Returns whether one of the names is the host's, and remembers which ones have matched.
  bool contains(const Host& host);

  // Returns the names that have matched no host so far.
  std::vector<std::string> unused() const;

 private:
  bool find(std::string_view name);
  bool mark(const std::unordered_map<std::string, std::vector<std::size_t>>& index,
            const std::string& key);

  std::vector<std::string> names_;
  std::vector<bool> used_;
  std::unordered_map<std::string, std::vector<std::size_t>> by_name_;
  std::unordered_map<std::string, std::vector<std::size_t>> short_;     // names without a dot
  std::unordered_map<std::string, std::vector<std::size_t>> by_label_;  // others, by first label
};

}  // namespace hvdrun
