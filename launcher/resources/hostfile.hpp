// Which names mean the same host. No resolver is asked: that may take seconds, and two answers for
// one question.
#pragma once

#include "base/result.hpp"
#include "model/host_request.hpp"
#include "model/placement.hpp"

#include <cstddef>
#include <filesystem>
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

// Hostfiles: one host a line, in the forms of Horovod and Open MPI ("n1 slots=4"), of MPICH
// ("n1:4"), and of batch systems (a bare name, once for each slot).
//
//   [user@]host[:slots] [slots=N] [max_slots=N] [port=N] [user=NAME]
//
// The host is a name, a list such as n[01-16,20], which stands for several alike, or an IPv6
// address in brackets. "#" begins a comment. docs/hosts.md is the page for users.

// The hosts of a hostfile's text, in order; a host may be there several times. `name` is the
// file's, for messages and for HostRequest::source. A pure function. Errors (kExitUsage) are one
// line with file and line: what cannot be read, no host at all, more than kMaxHosts.
Result<std::vector<HostRequest>> parse_hostfile(std::string_view text, const std::string& name);

// Reads the file, or pipe. Errors (kExitUsage): it cannot be read, is a folder, no text, or far
// larger than any hostfile; and those of parse_hostfile.
Result<std::vector<HostRequest>> read_hostfile(const std::filesystem::path& file);

}  // namespace hvdrun
