// Turns the bytes of one rank's stream, which arrive cut at any place, into lines for a Screen. One
// object per rank and stream, on the loop thread. It has no clock and no descriptor: the caller
// passes times, so that tests decide them.
//
// A line ends with "\n" (or "\r\n", whose "\r" is kept). Text before another "\r" is progress,
// which the text after it overwrites. Only the last text of a line is shown. While the line
// continues, the newest text is shown now and then: on a terminal in place, every kRedrawEvery;
// elsewhere as a line of its own, first when the rank pauses, then at most every kProgressEvery.
// Other control bytes, NUL included, are text.
//
// Nested bars (tqdm's position=1) are written as "\n", the lower bar's text, and "move up": the
// newline after a move up only goes back to a row, so it ends no line there. While they move, the
// newest text of any row is shown as that of one bar. At their end, the last text of each row is
// shown as a line, unless that is blank or was shown before. A move up moves only in a line with a
// return: after it, or directly before it. Elsewhere it is text.
//
// An unfinished line on a terminal is shown after kQuiet. A short one is shown kQuiet after it
// began, so that a row of dots moves; a long one when the rank has been silent that long. In a file
// or pipe, any unfinished line waits until the rank has been silent for kQuietInFile. A chunk of
// whole 4096-byte blocks is a full stdio buffer: its line continues in the next chunk, so it is not
// shown before.
#pragma once

#include "output/label.hpp"
#include "output/line_folder.hpp"
#include "output/screen.hpp"
#include "output/stream.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace hvdrun {

class LineAssembler {
 public:
  using Steady = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::milliseconds kQuiet{200};
  // Longer, because nobody waits for a prompt there, and a rank on a busy machine may pause within
  // a line.
  static constexpr std::chrono::milliseconds kQuietInFile{2000};
  static constexpr std::chrono::milliseconds kRedrawEvery{200};
  static constexpr std::chrono::milliseconds kProgressEvery{10000};
  // A longer line is broken into labelled pieces of about this size, and a shorter last one; never
  // inside a character of UTF-8, as nowhere here.
  static constexpr std::size_t kMaxLine = 16 * 1024 * 1024;
  // The most that all unfinished lines of a job hold together. Beyond it the line that grows is
  // broken.
  static constexpr std::size_t kMaxHeld = 64 * 1024 * 1024;
  static constexpr std::size_t kShortLine = 4096;
  static constexpr int kMostRows = 64;  // of nested bars, above the lowest one

  // Where the lines are shown. All streams that are shown there share it.
  struct Outlet {
    Screen& screen;
    Labels& labels;
    std::size_t& held;             // bytes of unfinished lines, over all streams of the job
    LineFolder* folder = nullptr;  // takes whole lines in place of the screen
    Steady now{};                  // for the folder
  };

  LineAssembler(int rank, Stream stream) : rank_(rank), stream_(stream) {}

  // `time`: when the rank wrote, for labels. `now`: when the bytes arrived here, for time-outs.
  void feed(Outlet& outlet, std::string_view bytes, OutputTime time, Steady now);

  // Ends the stream: an unfinished line is shown as a line.
  void close(Outlet& outlet);

  // Returns whether an unfinished line may have to be shown later; due() returns when.
  bool waits() const { return fresh_ && !text_.empty(); }

  // Returns when the unfinished line is to be shown if no more bytes arrive; nullopt if never.
  // `quiet_from`: time-outs begin at this time or later, because no bytes could arrive before it.
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
  void finish(Outlet& outlet, std::string_view piece, OutputTime time, Steady now);
  void add_text(Outlet& outlet, std::string_view text, OutputTime time, Steady now);
  // Takes the moves up out of text_, where none is before `from`. The text before each stays in its
  // row.
  void take_moves(Outlet& outlet, std::size_t from = 0);
  // Begins a new text in the cursor's row, and keeps the old one in its own. Only a text that is
  // not empty takes the place of one of the same row.
  void begin_text(Outlet& outlet);
  // Shows the last text of each row as a line. The tail is for a line of one row.
  void show_rows(Outlet& outlet, std::string_view tail);
  // Shows text_ and the tail as the end of a line, or as a whole one.
  void show_end(Outlet& outlet, std::string_view tail);
  void drop_text(Outlet& outlet);
  void drop_row(Outlet& outlet);  // the one of text_
  // The end of text_ that no line may be cut in. give_back() appends it again.
  std::string take_unfinished_character(Outlet& outlet);
  void give_back(Outlet& outlet, std::string_view bytes);
  void reset_line(Outlet& outlet);

  const int rank_;
  const Stream stream_;

  // The part of the unfinished line's newest text that is not shown yet.
  std::string text_;
  OutputTime began_{};
  bool begun_ = false;         // the text's beginning has been shown; text_ continues it
  bool after_return_ = false;  // the last byte was "\r": the next text overwrites text_
  bool progress_ = false;      // the line has had a "\r"
  bool fresh_ = false;         // text_ has changed since it was last shown
  bool progress_shown_ = false;
  bool overwritten_ = false;  // a text has followed a "\r": a move up is one from here on
  bool moved_ = false;        // the line is several rows of nested bars
  int rows_up_ = 0;           // the cursor is this many rows above the lowest one of nested bars
  int text_row_ = 0;          // and text_ is in the row with this number
  // Texts of rows, top first. In text_'s own row it is the one before, which an empty text_ leaves.
  std::map<int, std::string, std::greater<>> rows_;
  bool full_block_ = false;
  Steady unshown_since_{};
  Steady last_byte_{};
  Steady progress_mark_{};  // of the last shown update, or of the first "\r"
};

}  // namespace hvdrun
