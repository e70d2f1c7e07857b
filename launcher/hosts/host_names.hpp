// Which names mean the same host. No resolver is asked: that may take seconds, and two answers for
// one question.
#pragma once

#include "model/allocation.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace hvdrun {

// Upper and lower case are the same in a host's name (RFC 4343).
std::string lower_case(std::string_view text);

// Whether `host` is a name of this machine: localhost, an address of the loopback network, its own
// name, or the part before the first dot of either where the other has no dot.
bool names_this_machine(std::string_view host, std::string_view machine_name);

// A list of names in which hosts are looked up, as --include and --exclude have it: a short name
// means the long one and the other way round, and localhost this machine.
class HostNames {
 public:
  explicit HostNames(const std::vector<std::string>& names);

  // Whether the list names the host. Remembers which names have been found.
  bool contains(const Host& host);

  // The names of the list that no host asked for so far had.
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
