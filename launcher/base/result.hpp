// Errors as values. A function that can fail returns Result<T>; HVD_TRY hands an error on.
#pragma once

#include <string>
#include <utility>

#include <tl/expected.hpp>

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
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(std::string message, int exit_code = kExitLauncher) {
  return tl::unexpected<Error>(Error{std::move(message), exit_code});
}

// An error that names the system call's errno: "cannot open X: Permission denied".
tl::unexpected<Error> fail_errno(std::string what, int errno_value, int exit_code = kExitLauncher);

// Prefixes an error's message with where it happened: "config.json: …".
Error with_context(std::string context, Error error);

}  // namespace hvdrun

#define HVD_CONCAT_INNER(a, b) a##b
#define HVD_CONCAT(a, b) HVD_CONCAT_INNER(a, b)

// HVD_TRY(auto value, expression): declares value, or returns the expression's error.
#define HVD_TRY(declaration, expression)                                      \
  auto HVD_CONCAT(hvd_try_, __LINE__) = (expression);                         \
  if (!HVD_CONCAT(hvd_try_, __LINE__))                                        \
    return tl::unexpected(std::move(HVD_CONCAT(hvd_try_, __LINE__)).error()); \
  declaration = std::move(*HVD_CONCAT(hvd_try_, __LINE__))

// HVD_CHECK(expression): returns the expression's error, if any, and drops its value.
#define HVD_CHECK(expression)                                     \
  do {                                                            \
    if (auto hvd_check_result = (expression); !hvd_check_result)  \
      return tl::unexpected(std::move(hvd_check_result).error()); \
  } while (false)
