// A host that the user names, with -H or in a hostfile: a plain value, read from text by a pure
// function.
#pragma once

#include "base/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

struct HostRequest {
  std::string name;          // as it was typed; an IPv6 address without its brackets
  std::optional<int> slots;  // none: as many as the host offers
  std::string user;          // to log in as; empty: as the user's ssh configuration has it
  std::optional<int> port;   // of its ssh server; likewise
  // Open MPI's max_slots: not even --oversubscribe goes beyond.
  std::optional<int> max_slots;
  std::string source;  // "-H", "hosts.txt:3"

  bool operator==(const HostRequest&) const = default;
};

// Reads "[user@]host[:slots]", in which the host is a name, a list of names in SLURM's notation
// ("n[01-16,20]", without a comma outside the brackets) or an IPv6 address in brackets; so there
// may come several, alike but for the name. Errors (kExitUsage) are a phrase that quotes the text.
Result<std::vector<HostRequest>> parse_host_request(std::string_view text, std::string_view source);

// Several of them with commas between, as -H takes them.
Result<std::vector<HostRequest>> parse_host_requests(std::string_view text,
                                                     std::string_view source);

// The shortest form of such a list: "n[1-4]:8,login". For people.
std::string fold_host_requests(const std::vector<HostRequest>& requests);

}  // namespace hvdrun
