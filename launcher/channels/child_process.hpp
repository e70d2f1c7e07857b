// Starts programs with pipes as their standard streams: ssh, srun. The caller of the first two
// functions owns the process and reaps it; the other functions block until their programs have
// ended. Any thread may call them. Error: the program cannot be started.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"
#include "protocol/link.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

struct ChildProcess {
  pid_t pid = 0;  // our child, in a session of its own, so that the terminal signals only us
  LinkEnd link;   // its stdin and stdout; non-blocking
  Fd errors;      // its stderr; non-blocking
  Fd watched;     // readable once it has ended; closed unless start_watched_child() has started it
};

struct ChildOptions {
  std::optional<std::vector<std::string>> environment;  // "NAME=VALUE"; nullopt: ours
  bool errors_only = false;  // its stdout is its stderr's pipe; link.in stays closed
  int stream = -1;           // its stdin and stdout, instead of `link`, which stays closed
  int input = -1;            // its stdin, instead of link.out, which stays closed
};

// Starts a program, which is searched for in our PATH. Error: there is no such program
// (kExitUsage), or no descriptors are left.
Result<ChildProcess> start_child(const std::vector<std::string>& command,
                                 const ChildOptions& options = {});

// The same, and watches the end of the program.
Result<ChildProcess> start_watched_child(const std::vector<std::string>& command,
                                         const ChildOptions& options = {});

// Runs a program with an empty stdin and returns what it prints on stdout. Returns "" if it has not
// ended after `timeout`, if is_cut() returns true, which is called every 100 ms, or if it prints
// more than 1 MiB; then it is killed. What it prints on stderr is lost.
Result<std::string> output_of(const std::vector<std::string>& command,
                              std::chrono::milliseconds timeout,
                              const std::function<bool()>& is_cut);

// Runs programs side by side with an empty stdin, and blocks until all have ended. Kills those that
// have not ended after `timeout`. What they print is lost. Returns which of them ended with exit
// code 0.
std::vector<bool> run_children(const std::vector<std::vector<std::string>>& commands,
                               std::chrono::milliseconds timeout);

}  // namespace hvdrun
