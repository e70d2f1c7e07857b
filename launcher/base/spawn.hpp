// Starts a program: posix_spawn(3) with owners.
#pragma once

#include "base/result.hpp"

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

// The program's standard streams, not owned; those that are left out are ours. All other
// descriptors of ours that are not close-on-exec are its own, too.
struct SpawnStreams {
  int in = -1;
  int out = -1;
  int err = -1;
  int other = -1;  // becomes kOtherDescriptor
};

inline constexpr int kOtherDescriptor = 9;  // one digit: a shell can name it

enum class SpawnSession {
  own,   // it leads a session of its own, so that the terminal's signals are for us
  ours,  // it is in our process group, and may use the terminal
};

// The program is looked for in our PATH; no signal is blocked in it, and SIGPIPE is not ignored.
// `environment` is "NAME=VALUE"; without one it has ours. Error: kExitNotFound where there is no
// such program.
Result<pid_t> spawn(const std::vector<std::string>& command, const SpawnStreams& streams,
                    const std::optional<std::vector<std::string>>& environment = {},
                    SpawnSession session = SpawnSession::own);

}  // namespace hvdrun
