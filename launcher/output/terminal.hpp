// Which terminals get coloured labels and redrawn progress bars, and the colours.
#pragma once

#include "model/job_spec.hpp"
#include "output/sink.hpp"

#include <functional>
#include <string_view>
#include <utility>

namespace hvdrun {

// What the environment says about the user's terminal. Null: the variable is not set.
struct TerminalEnvironment {
  const char* term = nullptr;       // TERM
  const char* no_color = nullptr;   // NO_COLOR (no-color.org): any value but the empty one
  const char* colorterm = nullptr;  // COLORTERM

  static TerminalEnvironment of_process();

  // It understands escape sequences: "\r\x1b[K" erases a line.
  bool has_escapes() const;
  bool has_256_colors() const;
};

// --color: always and never are obeyed; automatic asks for a terminal that can, and no NO_COLOR.
bool wants_color(ColorMode mode, bool is_terminal, const TerminalEnvironment& environment);

// The escape sequence that begins rank's colour. Of middle brightness, to be read on light and on
// dark backgrounds; neighbours in rank differ clearly.
std::string_view label_color(int rank, bool has_256_colors);

inline constexpr std::string_view kColorEnd = "\x1b[0m";

// One place where lines are shown (a terminal, a pipe, a file) and how far its last line has come:
// what keeps one rank's bytes from being glued to another's. Writes into a byte queue and knows of
// no descriptor; on the loop's thread.

class Screen {
 public:
  // Width of a terminal where a line can be erased and written anew, asked for at each progress
  // update (windows change); 0: not known. Null: nothing can be erased there.
  using Columns = std::function<int()>;

  // Who writes: a rank's stream (LineAssembler's number), never negative.
  using Owner = int;
  static constexpr Owner kLauncher = -1;

  Screen(ByteQueue& queue, Columns columns, bool terminal)
      : queue_(queue), columns_(std::move(columns)), terminal_(terminal) {}

  // Lines that end with a newline each; the label goes before every one.
  void whole_lines(std::string_view label, std::string_view lines);

  // One line in two pieces; the second ends with a newline.
  void line(Owner owner, std::string_view label, std::string_view head, std::string_view tail);

  // The end of a line of which partial() has shown the beginning: goes on where that stands, or is
  // a line of its own if something came between. The tail ends with a newline.
  void rest(Owner owner, std::string_view label, std::string_view head, std::string_view tail);

  // A line without its end. The cursor stays behind it until something else is to be shown.
  void partial(Owner owner, std::string_view label, std::string_view text);

  // A text that the rank means to overwrite. True: it can be erased, and will be by whatever comes
  // next. False: it has become a line like any other.
  bool progress(Owner owner, std::string_view label, std::string_view text);

  // progress() would return true.
  bool can_redraw(std::string_view label, std::string_view text) const;

  bool is_terminal() const { return terminal_; }

  // Lines of the launcher's own.
  void note(std::string_view text);

  // How far the launcher is: one line, which whatever comes next overwrites; an empty text erases
  // it. Nothing where it could not be erased.
  void status(std::string_view text);

 private:
  enum class Open { none, partial, progress };

  // Ends or erases what stands on the last line, so that a new one can begin. A rank that
  // overwrites its own text has it erased where possible.
  void make_way(Owner owner);
  bool is_open_for(Owner owner) const { return open_ == Open::partial && owner_ == owner; }
  void labelled(std::string_view label, std::string_view head, std::string_view tail);

  ByteQueue& queue_;
  Columns columns_;
  bool terminal_;  // somebody is watching, also where nothing can be erased
  Open open_ = Open::none;
  Owner owner_ = kLauncher;
  bool erasable_ = false;  // what is open fits on one row of the terminal
};

// Columns that a text takes on a terminal: UTF-8, colour sequences take none, wide characters two.
// Where in doubt (bytes that are not UTF-8, other control bytes) rather too many.
int display_columns(std::string_view text);

}  // namespace hvdrun
