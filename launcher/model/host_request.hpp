// A host that the user names, with -H or in a hostfile: a plain value, and pure functions that read
// it from text. For any thread.
#pragma once

#include "base/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

struct HostRequest {
  std::string name;              // as it was typed; an IPv6 address without its brackets
  std::optional<int> slots;      // nullopt: as many as the host offers
  std::string user;              // to log in as; empty: the one in the user's ssh configuration
  std::optional<int> port;       // of its ssh server; nullopt: -p, or the ssh configuration
  std::optional<int> max_slots;  // as with Open MPI: --oversubscribe does not exceed it
  std::string source;            // "-H", "hosts.txt:3"

  bool operator==(const HostRequest&) const = default;
};

// Reads "[user@]host[:slots]". The host is a name, a list of names in SLURM's notation
// ("n[01-16,20]", without a comma outside the brackets) or an IPv6 address in brackets. Returns one
// request per name; they differ only in the name. Errors (kExitUsage) are a phrase that quotes the
// text.
Result<std::vector<HostRequest>> parse_host_request(std::string_view text, std::string_view source);

// Reads several of them with commas between, as in -H. Error also: more than kMaxHosts hosts.
Result<std::vector<HostRequest>> parse_host_requests(std::string_view text,
                                                     std::string_view source);

// Returns the shortest form of such a list, for people: "n[1-4]:8,login".
std::string fold_host_requests(const std::vector<HostRequest>& requests);

}  // namespace hvdrun
