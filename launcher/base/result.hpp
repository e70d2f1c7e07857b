// The launcher's errors as values: what went wrong, and the exit code that it gives.
#pragma once

#include "common/result.hpp"

#include <string>
#include <utility>

namespace hvdrun {

// Exit codes of hvdrun itself. A rank's own code, or 128 + its signal, comes before all of these.
// The table for users is in docs/exit-codes.md.
enum ExitCode : int {
  kExitOk = 0,
  kExitUsage = 2,       // command line, config file, hosts or placement cannot work
  kExitTimeout = 124,   // --exit-timeout or --start-timeout ran out
  kExitLauncher = 125,  // hvdrun itself failed (an agent was lost, output could not be written)
  kExitNotExecutable = 126,  // the program is there but cannot be run
  kExitNotFound = 127,       // the program is not there
  kExitSignalBase = 128,     // + signal number
  kExitInterrupt = 130,      // Ctrl-C
};

// What went wrong, in words for the user: what happened, to whom, and what to do about it.
struct Error {
  std::string message;
  int exit_code = kExitLauncher;
};

template <class T>
using Result = common::Result<T, Error>;

inline Error fail(std::string message, int exit_code = kExitLauncher) {
  return {std::move(message), exit_code};
}

// An error of the command line, a config file, the hosts or the placement.
inline Error usage_error(std::string message) {
  return {std::move(message), kExitUsage};
}

// An error that names the system call's errno: "cannot open X: Permission denied".
Error fail_errno(std::string what, int errno_value, int exit_code = kExitLauncher);

// Prefixes an error's message with where it happened: "config.json: …".
Error with_context(std::string context, Error error);

}  // namespace hvdrun
