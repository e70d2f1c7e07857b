// One place where lines are shown (a terminal, a pipe, a file), and what its last line is. It keeps
// the bytes of one rank from being joined to another's. Writes into a byte queue and knows no
// descriptor. Loop thread only; nothing fails.
#pragma once

#include "output/byte_queue.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvdrun {

// Erases the status line, whose first column has the cursor, and folds long lines again. Stays
// harmless if a shell's prompt has been written there already.
inline constexpr std::string_view kUndoStatus = "\x1b[?7h\x1b[K\x1b[J";

// Erases from the first column to the end of the screen. The cursor waits in the status line's
// first column. When the terminal becomes narrower and folds the line, this still erases all of it.
// The line itself is erased first: tmux keeps what is erased with the whole screen in its history.
inline constexpr std::string_view kEraseStatus = "\r\x1b[K\x1b[J";
// Around the status (DECAWM): a terminal that has become narrower, and whose new width is not known
// here yet, cuts the line instead of folding it. The second one also moves to the first column.
inline constexpr std::string_view kNoWrap = "\x1b[?7l";
inline constexpr std::string_view kWrap = "\x1b[?7h\r";

class Screen {
 public:
  // Returns the width of a terminal where a line can be erased and written again; 0 if it is not
  // known. It is called at each progress update, because windows change. Null: nothing can be
  // erased there.
  using Columns = std::function<int()>;

  // Who writes: the number of a rank's stream (LineAssembler), never negative, or the launcher.
  using Owner = int;
  static constexpr Owner kLauncher = -1;

  // The queue must outlive the screen. `terminal`: a person is watching, even where nothing can be
  // erased.
  Screen(ByteQueue& queue, Columns columns, bool terminal)
      : queue_(queue), columns_(std::move(columns)), terminal_(terminal) {}

  // Shows lines that each end with a newline, with the label before each.
  void whole_lines(std::string_view label, std::string_view lines);

  // Shows one line in two pieces. The second ends with a newline.
  void line(Owner owner, std::string_view label, std::string_view head, std::string_view tail);

  // Shows the rest of a line that partial() began. It continues that line, or is a line of its own
  // if another came between. The tail ends with a newline.
  void rest(Owner owner, std::string_view label, std::string_view head, std::string_view tail);

  // Shows a line without its end. The cursor stays after it until something else is shown.
  void partial(Owner owner, std::string_view label, std::string_view text);

  // Shows a text that the rank means to overwrite. Returns true if it can be erased; the next
  // output does that. Returns false if it has become a line like any other.
  bool progress(Owner owner, std::string_view label, std::string_view text);

  // Returns whether progress() would return true.
  bool can_redraw(std::string_view label, std::string_view text) const;

  bool is_terminal() const { return terminal_; }

  // Shows a line of the launcher's own.
  void note(std::string_view text);

  // Sets the launcher's status: the line below all output. Its fields are joined by " · ". Those
  // that do not fit into one row are left out, from the right. No fields: no line. The line appears
  // with the next draw_status(), and any output erases it. It never appears where it could not be
  // erased.
  void status(std::vector<std::string> fields);

  // Draws the status, below a rank's progress if that is the last line. Does nothing if the status
  // is shown already, or while the last line is unfinished (a prompt). Call it when all output of
  // this turn is shown.
  void draw_status();

  bool shows_status() const { return open_ == Open::status; }

  // Erases the status, so that draw_status() draws it anew: the terminal's width has changed.
  void erase_status();

 private:
  enum class Open { none, partial, progress, status };

  // Ends or erases an unfinished last line, so that a new one can begin. A rank that overwrites its
  // own text has it erased where possible.
  void make_way(Owner owner);
  bool is_open_for(Owner owner) const { return open_ == Open::partial && owner_ == owner; }
  void labelled(std::string_view label, std::string_view head, std::string_view tail);

  ByteQueue& queue_;
  Columns columns_;
  bool terminal_;
  Open open_ = Open::none;  // the last line
  Owner owner_ = kLauncher;
  bool erasable_ = false;  // the unfinished line fits on one row of the terminal
  std::vector<std::string> status_;
  bool status_below_bar_ = false;  // a rank's progress is in the row above the status
};

// Returns the columns that a text takes on a terminal. It is UTF-8; colour sequences take none,
// wide characters two. In doubt (bytes that are not UTF-8, other control bytes) it returns too
// many.
int display_columns(std::string_view text);

// Returns the fields, joined by " · ", without the last ones that do not fit into `columns`
// columns. Returns an empty text if the first does not fit.
std::string fit_fields(const std::vector<std::string>& fields, int columns);

}  // namespace hvdrun
