// A running ssh that carries an agent's link.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "control/link.hpp"

#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

struct SshProcess {
  pid_t pid = 0;  // our child, in a session of its own: the terminal's signals are for us
  LinkEnd link;   // its stdin and stdout; non-blocking
  Fd errors;      // its stderr; non-blocking
};

// Error: there is no such program.
Result<SshProcess> start_ssh(const std::vector<std::string>& command);

}  // namespace hvdrun
