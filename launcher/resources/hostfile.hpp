// Reads hostfiles: one host per line, in the forms of Horovod and Open MPI ("n1 slots=4"), of MPICH
// ("n1:4"), and of batch systems (a bare name, once for each slot).
//
//   [user@]host[:slots] [slots=N] [max_slots=N] [port=N] [user=NAME]
//
// The host is a name, a list such as n[01-16,20], which means several hosts, or an IPv6 address in
// brackets. "#" begins a comment. docs/cluster/ssh.md is the page for users. Functions for any
// thread.
#pragma once

#include "base/result.hpp"
#include "model/host_request.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// Returns the hosts of a hostfile's text, in order; a host may occur several times. `name` is the
// file's, for messages and for HostRequest::source. A pure function. Errors (kExitUsage) are one
// line with file and line: binary data, a line that cannot be read, no host at all, or more than
// kMaxHosts hosts.
Result<std::vector<HostRequest>> parse_hostfile(std::string_view text, const std::string& name);

// Reads the file, or pipe. Errors (kExitUsage): those of parse_hostfile; or the file cannot be
// read, is a folder, or is larger than 32 MiB.
Result<std::vector<HostRequest>> read_hostfile(const std::filesystem::path& file);

}  // namespace hvdrun
