// "1 host", "4 hosts": a number with its thing, for messages.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

inline std::string plural(std::integral auto count, std::string_view thing) {
  return std::to_string(count) + " " + std::string(thing) + (count == 1 ? "" : "s");
}

// "did you mean …?": the known name that a mistyped one most likely stands for.

// The candidate with the fewest slips (a letter missing, added, changed, or two swapped) from
// `name`, the first of equals; a candidate that begins with `name` counts as one slip. Empty when
// none is near enough: at most a third of the name's length.
std::string_view nearest_name(std::string_view name,
                              const std::vector<std::string_view>& candidates);

// Text from outside, made fit to stand inside a message of ours: what a user typed, what ranks and
// other hosts say.

// Control characters as \n, \t or \x1b; all of it, without quotes: for a table's cell.
std::string escape(std::string_view text);

// Nothing that a terminal would obey: control characters (C0 but tab, DEL, C1) as \x1b. All other
// bytes stay, newlines among them.
std::string printable(std::string_view text);

// In double quotes; control characters as \n, \t or \x1b; a text past 1024 bytes is cut ("…").
// Other bytes stay as they are: the terminal decides what a name in its encoding looks like.
std::string quote(std::string_view text);

// As it is where that can be read as one word, else as quote().
std::string quote_if_needed(std::string_view text);

// A table of words for a terminal.

using TableRow = std::vector<std::string>;

// One line a row, the columns as wide as their widest word and two blanks apart; no blanks at the
// ends. All rows have as many columns as the first.
std::vector<std::string> table_lines(const std::vector<TableRow>& rows);

}  // namespace hvdrun
