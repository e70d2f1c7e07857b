// Starts a program: posix_spawn(3) with owners.
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

// The program is looked for in our PATH; no signal is blocked in it, and neither SIGPIPE nor
// SIGXFSZ is ignored. `environment` is "NAME=VALUE"; without one it has ours. Error: kExitNotFound
// where there is no such program.
Result<pid_t> spawn(const std::vector<std::string>& command, const SpawnStreams& streams,
                    const std::optional<std::vector<std::string>>& environment = {},
                    SpawnSession session = SpawnSession::own);

// A program that is run to its end while its output is caught: SLURM's commands.

struct ProgramEnd {
  int code = 0;            // its exit code; 128 + the signal that ended it
  bool timed_out = false;  // it was killed when its time was up
  std::string out;
  std::string err;
};

struct ProgramRequest {
  std::vector<std::string> command;
  std::optional<std::vector<std::string>> environment;  // "NAME=VALUE"; without: ours
  std::string input;                                    // its stdin
  std::chrono::milliseconds timeout{60'000};
};

// Lives on the loop's thread, and kills the program when it goes before its end. SIGPIPE must be
// ignored where there is input.
class ProgramRun {
 public:
  // `done` is called once, from the loop; it may destroy its ProgramRun. Error: as spawn().
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
  pid_t pid_ = 0;  // 0: none, or reaped
  Source in_;
  Source out_;
  Source err_;
  Timer timeout_;
  Timer end_check_;
};

// The same, blocking.
Result<ProgramEnd> run_program(ProgramRequest request);

}  // namespace hvdrun
