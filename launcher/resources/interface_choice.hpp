// What --network-interface chooses of a host's network interfaces. Pure functions.
//
// The forms are those of NCCL_SOCKET_IFNAME: names or beginnings of names, separated by commas; "="
// before them: whole names only; "^" or "^=" before them: all interfaces but these. A name that is
// one of an interface is that interface alone.
//
// Source: NCCL's documentation, "Environment Variables", NCCL_SOCKET_IFNAME.
#pragma once

#include "base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// Returns the interfaces in the order of the names; for "^" in the host's order, and without
// loopback ("lo") unless only that is left. Error (kExitUsage): a name is that of no interface, or
// none is left. The text ends with the interfaces of the host.
Result<std::vector<std::string>> choose_interfaces(std::string_view choice,
                                                   const std::vector<std::string>& interfaces);

// Returns whether the choice consists of names as any program reads them, without "^" and "=".
bool is_plain_choice(std::string_view choice);

}  // namespace hvdrun
