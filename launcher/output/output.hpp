// Everything that hvdrun shows or files of what ranks print: whole lines, each with its label.
//
// Lives on the launcher's event loop thread; never blocks. Bytes come in as agents read them from
// the ranks' pipes; lines go out to hvdrun's own stdout and stderr and, with --output-filename, to
// one file a rank and stream. When a sink cannot keep up, congested() turns true and the caller
// stops granting agents credit until on_relief is called: that is the whole back-pressure, and what
// bounds memory.
//
// How the parts fit: RankFiles gets the raw bytes and LastLines those of stderr; a Console (one
// LineAssembler a stream, one Screen a place) makes labelled lines of them in the byte queue of a
// Sink, which writes to the descriptor. Where hvdrun's stdout and stderr are the same place there
// is one sink, so that lines keep their order and never mix.
//
// SIGPIPE must be ignored in the process, and descriptors 0 to 2 be open.
#pragma once

#include "base/result.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "output/stream.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct event_base;

namespace hvdrun {

class Output {
 public:
  struct Events {
    std::function<void()> on_relief;  // congested() has turned false again
    // A sink failed (full disk, closed stdout). Said once a sink, with --on-output-error's choice:
    // stop is true when the job is to end because of it. The per-rank files are one sink: the first
    // that fails is named, losses() has all. A reader who has gone (`hvdrun … | head`) always ends
    // the job, with exit code 128 + SIGPIPE, as it would end any program.
    std::function<void(const Error&, bool stop)> on_error;
  };
  // Both are called from the loop or from flush(), never from within write(), close() or note().

  // The descriptors that lines go to; not owned. Others than hvdrun's own in tests and benches.
  struct Descriptors {
    int out = 1;
    int err = 2;
  };

  // Opens the sinks; notes may be shown. begin() makes DIR/rank.0007/{stdout,stderr} where
  // spec.directory says so, at least four digits. Error (kExitUsage): the label is not one.
  static Result<std::unique_ptr<Output>> open(event_base* loop, const OutputSpec& spec,
                                              Events events, Descriptors descriptors);
  static Result<std::unique_ptr<Output>> open(event_base* loop, const OutputSpec& spec,
                                              Events events) {
    return open(loop, spec, std::move(events), Descriptors{});
  }
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Bytes that `rank` wrote to `stream`, read from its pipe at `time`.
  void write(int rank, Stream stream, std::string_view bytes, OutputTime time);

  // The rank's stream has ended: a last line without newline goes out, as a line.
  void close(int rank, Stream stream);

  // A line of hvdrun's own ("hvdrun: …"), without newline; to stderr, never inside another line.
  // What it has of others may be anything: control characters are shown and not sent, and each
  // further line is marked as a quotation ("hvdrun:   | …").
  void note(std::string_view text);

  // Returns true when a note was lost because its place cannot be written (a full disk). A reader
  // who has gone misses none.
  bool has_lost_notes() const;

  // Notes these lines once more where notes were lost, at the end of the job. Returns whether they
  // are written.
  bool note_again(const std::vector<std::string>& lines, std::chrono::milliseconds timeout);

  // How far hvdrun is, on a terminal alone: a line that whatever comes next overwrites. An empty
  // text erases it.
  void status(std::string_view text);

  bool congested() const;

  // Everything accepted has been written, or its sink has failed and that has been said. Partial
  // lines count once closed.
  bool idle() const;

  // Waits until idle(), at most `timeout`, without running the loop. For the end of the job.
  void flush(std::chrono::milliseconds timeout);

  // What could not be written, one line a file or stream, for the report's notes.
  std::vector<std::string> losses() const;

  // Ranks are about to be started: the first, or all streams are closed and as many are started
  // again, perhaps on other hosts. Then labels follow, last_stderr() begins anew, files go on.
  // Error (kExitUsage): --output-filename's directory cannot be made or written.
  Result<void> begin(const Placement& placement);

  // The rank's last 20 lines of stderr, oldest first, each cut to 4 KB, without newline.
  std::vector<std::string> last_stderr(int rank) const;

 private:
  class Impl;
  explicit Output(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvdrun
