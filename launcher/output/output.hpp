// Everything that hvdrun shows or files of what ranks print: whole lines, each with its label.
//
// Lives on the launcher's event loop thread; never blocks. Bytes come in as agents read them from
// the ranks' pipes; lines go out to hvdrun's own stdout and stderr and, with --output-filename, to
// one file a rank and stream. When a sink cannot keep up, congested() turns true and the caller
// stops granting agents credit until on_relief is called: that is the whole back-pressure, and what
// bounds memory.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"

struct event_base;

namespace hvdrun {

enum class Stream : unsigned char { out = 1, err = 2 };

class Output {
 public:
  using Time = std::chrono::system_clock::time_point;

  struct Events {
    std::function<void()> on_relief;  // congested() has turned false again
    // A sink failed (full disk, closed stdout). Said once a sink, with --on-output-error's choice:
    // stop is true when the job is to end because of it.
    std::function<void(const Error&, bool stop)> on_error;
  };

  // Opens the sinks; with spec.directory makes DIR/rank.0007/{stdout,stderr}.
  // Error: the directory cannot be made or written.
  static Result<std::unique_ptr<Output>> open(event_base* loop, const OutputSpec& spec,
                                              const Placement& placement, Events events);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Bytes that `rank` wrote to `stream`, read from its pipe at `time`.
  void write(int rank, Stream stream, std::string_view bytes, Time time);

  // The rank's stream has ended: a last line without newline goes out, as a line.
  void close(int rank, Stream stream);

  // A line of hvdrun's own, without newline; to stderr, never inside another line.
  void note(std::string_view line);

  bool congested() const;

  // Everything accepted has been written, or its sink has failed. Partial lines count once closed.
  bool idle() const;

  // Waits until idle(), at most `patience`, without running the loop. For the end of the job.
  void flush(std::chrono::milliseconds patience);

  // The rank's last 20 lines of stderr, oldest first, each cut to 4 KB, without newline.
  std::vector<std::string> last_stderr(int rank) const;

 private:
  class Impl;
  explicit Output(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvdrun
