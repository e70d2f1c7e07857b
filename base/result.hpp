// The launcher's errors as values: a message for the user, and the exit code. For any thread.
#pragma once

#include "common/result.hpp"

#include <string>
#include <utility>

namespace hvdrun {

// Exit codes of hvdrun itself. A rank's own code, or 128 + its signal, has priority over these. The
// table for users is in docs/reference/exit-codes.md.
enum ExitCode : int {
  kExitOk = 0,
  kExitUsage = 2,       // command line, config file, hosts or placement cannot work
  kExitTimeout = 124,   // --exit-timeout or --start-timeout ran out
  kExitLauncher = 125,  // hvdrun itself failed (an agent was lost, output could not be written)
  kExitNotExecutable = 126,  // the program exists but cannot be executed
  kExitNotFound = 127,       // there is no such program
  kExitSignalBase = 128,     // + signal number
  kExitInterrupt = 130,      // Ctrl-C
};

// The message says what happened, to which host, rank or file, and what to do about it.
struct Error {
  std::string message;
  int exit_code = kExitLauncher;
};

template <class T>
using Result = common::Result<T, Error>;

inline Error fail(std::string message, int exit_code = kExitLauncher) {
  return {std::move(message), exit_code};
}

// Returns an error of the command line, a config file, the hosts or the placement.
inline Error usage_error(std::string message) {
  return {std::move(message), kExitUsage};
}

// Returns an error with the text of an errno value: "cannot open X: Permission denied".
Error fail_errno(std::string what, int errno_value, int exit_code = kExitLauncher);

// Prefixes an error's message with where it happened: "config.json: …".
Error with_context(std::string context, Error error);

}  // namespace hvdrun
