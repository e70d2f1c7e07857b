// Turns the bytes of one rank's stream, cut anywhere, into lines for a Screen. One per rank and
// stream; no clock, no descriptor: times come in, so that tests decide them.
//
// A line ends with "\n" (or "\r\n", whose "\r" passes too). What stands before a "\r" elsewhere is
// progress, which the text behind it overwrites: only the last text of a line is shown, and while
// the line goes on the newest one now and then (kRedrawEvery on a terminal, in place; elsewhere as
// a line of its own, first when the rank pauses, then at most every kProgressEvery). Other control
// bytes, NUL included, are text.
//
// An unfinished line is shown after kQuiet: a short one kQuiet after it began, so that a row of
// dots moves; a long one once the rank has been silent for so long. Where nobody is watching, any
// line is waited for until the rank has been silent for kQuietInFile. A chunk of whole 4096-byte
// blocks is a full stdio buffer, whose line is not broken but waited for.
#pragma once

#include "output/label.hpp"
#include "output/stream.hpp"
#include "output/terminal.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

class LineAssembler {
 public:
  using Steady = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::milliseconds kQuiet{200};
  // Where nobody waits for a prompt: a rank on a busy machine may pause that long within a line.
  static constexpr std::chrono::milliseconds kQuietInFile{2000};
  static constexpr std::chrono::milliseconds kRedrawEvery{200};
  static constexpr std::chrono::milliseconds kProgressEvery{10000};
  // A longer line is broken into labelled pieces of this size (and a chunk's remainder).
  static constexpr std::size_t kMaxLine = 16 * 1024 * 1024;
  // So much may all unfinished lines of a job hold together: the one that grows then is broken.
  static constexpr std::size_t kMaxHeld = 64 * 1024 * 1024;
  static constexpr std::size_t kShortLine = 4096;

  // Where the lines go; shared by all streams that are shown there.
  struct Outlet {
    Screen& screen;
    Labels& labels;
    std::size_t& held;  // bytes of unfinished lines, over all streams of the job
  };

  LineAssembler(int rank, Stream stream) : rank_(rank), stream_(stream) {}

  // `time` is when the rank wrote (for labels), `now` when we got it (for time-outs).
  void feed(Outlet& outlet, std::string_view bytes, OutputTime time, Steady now);

  // The stream has ended: an unfinished line goes out as a line.
  void close(Outlet& outlet);

  // An unfinished line may have to be shown later: ask due().
  bool waits() const { return fresh_ && !text_.empty(); }

  // When the unfinished line is to be shown if nothing comes; none: no need. `quiet_from`:
  // time-outs do not count what passed before it, as nothing could come then.
  std::optional<Steady> due(const Outlet& outlet, Steady quiet_from) const;
  void show_unfinished(Outlet& outlet, Steady now);

 private:
  Screen::Owner owner() const { return rank_ * 2 + (stream_ == Stream::err ? 1 : 0); }
  std::string_view label(Outlet& outlet, OutputTime time) const {
    return outlet.labels.of(rank_, stream_, time);
  }
  bool is_between_lines() const { return text_.empty() && !begun_ && !progress_; }

  void extend(Outlet& outlet, std::string_view piece, OutputTime time, Steady now);
  void append(Outlet& outlet, std::string_view piece);
  void finish(Outlet& outlet, std::string_view piece, OutputTime time);
  void drop_text(Outlet& outlet);
  void reset_line(Outlet& outlet);

  const int rank_;
  const Stream stream_;

  // The unfinished line: its newest text, as far as not shown.
  std::string text_;
  OutputTime began_{};
  bool begun_ = false;         // the text's beginning has been shown; text_ goes on from there
  bool after_return_ = false;  // the last byte was "\r": what comes next overwrites text_
  bool progress_ = false;      // the line has had a "\r"
  bool fresh_ = false;         // text_ has changed since it was last shown
  bool progress_shown_ = false;
  bool full_block_ = false;
  Steady unshown_since_{};
  Steady last_byte_{};
  Steady progress_mark_{};  // the last update shown, else the first "\r"
};

// The last lines that a stream printed, for the failure report: at most kLines, each cut to kLength
// bytes. Cheap: of a long chunk only the end is looked at. A plain value.

class LastLines {
 public:
  static constexpr std::size_t kLines = 20;
  static constexpr std::size_t kLength = 4096;

  void add(std::string_view bytes);

  // Oldest first, without newlines; an unfinished line is the last. Of a line that overwrote itself
  // with "\r", the last text.
  std::vector<std::string> lines() const;

 private:
  void extend(std::string_view piece);
  void finish(std::string_view piece);

  std::vector<std::string> ring_;  // grows to kLines, then next_ is the oldest
  std::size_t next_ = 0;
  std::string unfinished_;
  bool after_return_ = false;  // "\r" was its last byte: what follows overwrites it
};

}  // namespace hvdrun
