// A running ssh that carries an agent's link.
#pragma once

#include "remote/child_process.hpp"

namespace hvdrun {

using SshProcess = ChildProcess;

// Error: there is no such program.
inline Result<SshProcess> start_ssh(const std::vector<std::string>& command) {
  return start_child(command);
}

}  // namespace hvdrun
