// Shows what ranks print: whole lines, each with its label, on hvdrun's stdout and stderr and, with
// --output-filename, in one file for each rank and stream.
//
// Runs on the loop thread and never blocks. Bytes arrive as agents read them from the ranks' pipes.
// If a sink cannot keep up, congested() becomes true, and the caller stops granting agents credit
// until on_relief is called. This is the only back-pressure, and it bounds memory. A sink that
// fails is reported by on_error.
//
// The rank with the terminal (OutputSpec::terminal_rank) writes through a SharedTerminal.
//
// The parts: RankFiles gets the raw bytes, and LastLines those of stderr. A Console makes labelled
// lines (one LineAssembler for each stream, one Screen for each place) in the byte queue of a Sink,
// which writes to the descriptor. If hvdrun's stdout and stderr are the same place, they have one
// sink, so that lines keep their order and never mix.
//
// SIGPIPE must be ignored in the process, and descriptors 0 to 2 must be open.
#pragma once

#include "base/result.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "output/recent_output.hpp"
#include "output/stream.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct event_base;

namespace hvdrun {

class Output {
 public:
  struct Events {
    std::function<void()> on_relief;  // congested() is false again
    // A sink has failed (full disk, closed stdout). Called once for each sink. `stop` is true if
    // the job is to end because of it, as --on-output-error says. The files of all ranks are one
    // sink here: the first failed file is named, and losses() has all. A reader that closes its
    // pipe (`hvdrun … | head`) always ends the job, with exit code 128 + SIGPIPE, as it would end
    // any program.
    std::function<void(const Error&, bool stop)> on_error;
    // The bytes that restore the terminal if hvdrun is killed are now these.
    std::function<void(std::string_view bytes)> on_undo = {};
  };
  // The loop and flush() call both. write(), close() and note() never do.

  // The descriptors that lines are written to; not owned. Tests and benches use others than
  // hvdrun's own.
  struct Descriptors {
    int out = 1;
    int err = 2;
  };

  // Opens the sinks, so that notes can be shown. begin() creates the files of ranks. Error
  // (kExitUsage): the label is wrong.
  static Result<std::unique_ptr<Output>> open(event_base* loop, const OutputSpec& spec,
                                              Events events, Descriptors descriptors);
  static Result<std::unique_ptr<Output>> open(event_base* loop, const OutputSpec& spec,
                                              Events events) {
    return open(loop, spec, std::move(events), Descriptors{});
  }
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // Shows bytes that `rank` wrote to `stream`. `time`: when they were read from its pipe.
  void write(int rank, Stream stream, std::string_view bytes, OutputTime time);

  // Whether the terminal that spec.terminal_rank has is in raw mode.
  void set_raw(bool raw);

  // Ends a rank's stream. A last line without newline is shown as a line.
  void close(int rank, Stream stream);

  // Shows the text as a line of hvdrun's own (own_line()) on stderr, never inside another line. It
  // may quote any text of others: control characters are made visible, and each further line is
  // marked as quoted ("hvdrun:   | …").
  void note(std::string_view text);

  // Returns whether a note was lost because it could not be written (a full disk). A reader that
  // has closed its pipe misses none.
  bool has_lost_notes() const;

  // Shows these lines once more at the end of a job whose notes were lost. Returns whether they
  // were written.
  bool note_again(const std::vector<std::string>& lines, std::chrono::milliseconds timeout);

  // How the progress of the job is to be shown here, as --progress and the terminal decide.
  enum class ProgressStyle { none, line, log };
  ProgressStyle progress_style() const;

  // Sets the status line, which stays below all output: its fields, of which a narrow terminal
  // shows the first ones. No fields: no line. Does nothing unless progress_style() is `line`.
  void status(std::vector<std::string> fields);

  // Draws the status line anew, because the terminal's width may have changed.
  void redraw_status();

  bool congested() const;

  // Returns whether all lines have been written, or their sink has failed and on_error was called.
  // An unfinished line is not included before its stream is closed.
  bool idle() const;

  // Returns how many bytes wait for their readers.
  std::size_t pending() const;

  // Waits until idle(), at most `timeout`, without running the loop. Use it at the end of the job.
  void flush(std::chrono::milliseconds timeout);

  // Returns a line for each stream or file that is incomplete, for the report's notes.
  std::vector<std::string> losses() const;

  // Call it before ranks are started, at first and at each restart. At a restart all streams are
  // closed, and as many ranks start again, perhaps on other hosts: labels change with them,
  // last_stderr() is empty, files continue. Creates the files of ranks at the first call. Error
  // (kExitUsage): --output-filename's folder cannot be created or written.
  Result<void> begin(const Placement& placement);

  // Adds a rank that is started later, with the next number.
  void add(const std::string& host, const RankPlacement& rank);

  // Returns the rank's last 20 lines of stderr, oldest first, each cut to 4 KB, without newline.
  std::vector<std::string> last_stderr(int rank) const;

  // Takes note that the rank has failed, for FollowOnErrors.
  void failed(int rank);

  // All ranks have ended. Shows what waits, and all that the rank to blame has printed.
  void settle(std::optional<int> first_failure);

  // Returns whether these lines are where hvdrun's own lines go, a terminal or
  // the file of both streams, and little
  // came after them.
  bool stderr_in_sight(int rank) const;

  // Returns what ranks have printed last, also in earlier attempts.
  const RecentOutput& recent() const;

 private:
  class Impl;
  explicit Output(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvdrun
