// Starts programs with posix_spawn(3), and runs one to its end while its output is read: SLURM's
// commands, scontrol and others. A ProgramRun belongs to the loop's thread; the functions work on
// the caller's. Errors: the program cannot be started.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "base/system.hpp"
#include "common/fd.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

// The program's standard streams, not owned. -1: the program inherits ours. It also inherits all
// other descriptors of ours that are not close-on-exec.
struct SpawnStreams {
  int in = -1;
  int out = -1;
  int err = -1;
  int other = -1;  // becomes kOtherDescriptor
};

inline constexpr int kOtherDescriptor = 9;  // one digit: a shell can name it

enum class SpawnSession {
  own,   // it leads a session of its own, so that the terminal signals only us
  ours,  // it is in our process group, and may use the terminal
};

// Starts a program, which is searched for in our PATH. It blocks no signal and ignores
// neither SIGPIPE nor SIGXFSZ. `environment` is "NAME=VALUE"; nullopt: the program inherits ours.
// Errors: kExitNotFound if there is no such program, otherwise kExitLauncher.
Result<pid_t> spawn(const std::vector<std::string>& command, const SpawnStreams& streams,
                    const std::optional<std::vector<std::string>>& environment = {},
                    SpawnSession session = SpawnSession::own);

// Returns a descriptor that becomes readable when a child of ours has ended. The owner of the child
// still reaps it. Error: no descriptors are left.
Result<Fd> watch_child(pid_t child);

// Waits for a child of ours to end, and reaps it. Returns its wait status. Returns nullopt if it
// has not ended after `limit`: even after SIGKILL it may hang in the kernel, or be frozen.
std::optional<int> wait_for_child(pid_t child, std::chrono::milliseconds limit);

// How long to wait for a child that was sent SIGKILL.
inline constexpr std::chrono::milliseconds kKilledTimeout{2000};

struct ProgramEnd {
  int code = 0;            // its exit code, or 128 + the signal that ended it
  bool timed_out = false;  // it was killed at the timeout
  std::string out;         // its stdout, at most about 256 MiB; the rest is dropped
  std::string err;         // its stderr, with the same limit
};

struct ProgramRequest {
  std::vector<std::string> command;
  std::optional<std::vector<std::string>> environment;  // "NAME=VALUE"; nullopt: ours
  std::string input;                                    // its stdin
  std::chrono::milliseconds timeout{60'000};
};

// A program that runs, in a session of its own. Belongs to the loop's thread. The destructor kills
// the program if it has not ended. SIGPIPE must be ignored if there is input.
class ProgramRun {
 public:
  // Starts the program. `done` is called once, from the loop, after the program has ended and its
  // streams are closed, or at the timeout. It may destroy its ProgramRun. Errors: those of spawn(),
  // or there are too many descriptors.
  static Result<std::unique_ptr<ProgramRun>> start(const EventLoop& loop, ProgramRequest request,
                                                   std::function<void(ProgramEnd)> done);
  ~ProgramRun();
  ProgramRun(const ProgramRun&) = delete;
  ProgramRun& operator=(const ProgramRun&) = delete;

 private:
  ProgramRun(const EventLoop& loop, std::string input, std::function<void(ProgramEnd)> done);

  struct Source {
    Fd fd;
    FdEvent event;
    void close();
  };
  Result<void> watch(const EventLoop& loop, Pipe in, Pipe out, Pipe err);
  void read_from(Source& source, std::string& text);
  void write_input();
  void look_for_end();

  std::string input_;
  std::size_t written_ = 0;
  std::function<void(ProgramEnd)> done_;
  ProgramEnd end_;
  pid_t pid_ = 0;  // 0: not started, or reaped
  Source in_;
  Source out_;
  Source err_;
  Timer timeout_;
  Timer end_check_;
};

// Runs a program to its end with a loop of its own. Blocks the thread.
Result<ProgramEnd> run_program(ProgramRequest request);

}  // namespace hvdrun
