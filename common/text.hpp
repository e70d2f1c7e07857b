// Pieces of message text, and text in fixed fields and in hexadecimal.
#pragma once

#include "common/result.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace common {

// "1 host", "4 hosts".
inline std::string plural(std::integral auto count, std::string_view thing) {
  return std::to_string(count) + " " + std::string(thing) + (count == 1 ? "" : "s");
}

// The known name that a mistyped one most likely stands for: the candidate with the fewest slips (a
// letter missing, added, changed, or two swapped) from `name`, the first of equals. A candidate
// that begins with `name` counts as one slip. Empty when none is near enough: at most a third of
// the name's length.
std::string_view nearest_name(std::string_view name,
                              const std::vector<std::string_view>& candidates);

// Text from outside, such as what a user typed or what ranks and other hosts say, made fit to stand
// inside a message.

// Control characters as \n, \t or \x1b; all of it, without quotes: for a table's cell.
std::string escape(std::string_view text);

// Without what a terminal would obey: control characters (C0 but tab, DEL, C1) as \x1b. All other
// bytes stay, newlines among them.
std::string printable(std::string_view text);

// In double quotes; control characters as \n, \t or \x1b; a text past 1024 bytes is cut ("…").
// Other bytes stay as they are: the terminal decides what a name in its encoding looks like.
std::string quote(std::string_view text);

// As it is where that can be read as one word, else as quote().
std::string quote_if_needed(std::string_view text);

// A text with names in braces, such as "run-{rank}.log", in its parts.
struct PatternPart {
  std::string text;  // what stands there, or the name without its braces
  bool is_name = false;
};
enum class PatternError { unclosed_brace, unopened_brace };
// "{{" and "}}" stand for braces. A name is not looked at: it may be empty.
Result<std::vector<PatternPart>, PatternError> parse_pattern(std::string_view text);

using TableRow = std::vector<std::string>;

// A table of words for a terminal: one line a row, the columns as wide as their widest word and two
// blanks apart; no blanks at the ends. All rows have as many columns as the first.
std::vector<std::string> table_lines(const std::vector<TableRow>& rows);

// The text without the blanks, tabs and carriage returns at its ends.
std::string_view trim(std::string_view text);

// "0-1,3": ranks in any order, each once.
std::string fold_ranks(std::span<const int> ranks);
// "rank 2", "ranks 0-1,3".
std::string describe_ranks(std::span<const int> ranks);

// The text if it has at most `most` bytes; else its beginning and, three times as much, its end,
// with a line between that says how much is left out. Cut between lines, or where one of them is
// too long between characters of UTF-8. `most` is at least 200.
std::string without_middle(std::string_view text, std::size_t most);

// Copies text into a fixed, NUL terminated field; what does not fit is cut.
void copy_text(std::span<char> field, std::string_view text);

// The text of a fixed field, up to its NUL or its end.
std::string_view field_text(std::span<const char> field);

// Bytes as hexadecimal digits, two each.
std::string to_hex(std::span<const std::uint8_t> bytes);

// Nothing unless the text is an even number of hexadecimal digits.
std::optional<std::vector<std::uint8_t>> from_hex(std::string_view text);

}  // namespace common
