// Text for messages, text in fixed fields, and text for bytes and ranks. Pure functions, for any
// thread. Lengths are in bytes; text is UTF-8 but may hold anything.
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

// Returns a count with its word: "1 host", "4 hosts".
inline std::string plural(std::integral auto count, std::string_view thing) {
  return std::to_string(count) + " " + std::string(thing) + (count == 1 ? "" : "s");
}

// Returns the known name that was most likely meant by a mistyped one: the candidate with the
// fewest slips (a letter missing, added, changed, or two swapped) from `name`, the first of equal
// ones. A candidate that begins with `name`, which then has four letters or more, has one slip.
// Returns "" if no candidate is near: one slip is, and so is one for each `letters` of the name.
std::string_view nearest_name(std::string_view name,
                              const std::vector<std::string_view>& candidates,
                              std::size_t letters = 4);

// ---- Text from outside (what a user typed, what ranks and other hosts send) inside a message

// Writes control characters as \n, \t or \x1b. Keeps the whole text and adds no quotes, for the
// cell of a table.
std::string escape(std::string_view text);

// Writes characters that control a terminal as \x1b: C0 except tab and newline, DEL, and C1. Keeps
// all other bytes.
std::string printable(std::string_view text);

// Returns the text in double quotes, with control characters as \n, \t or \x1b, cut after 1024
// bytes
// ("…"). Keeps other bytes, because the terminal knows how a name in its encoding looks.
std::string quote(std::string_view text);

// Returns the text unchanged if it reads as one word, otherwise quote() of it.

// ---- Patterns and tables
std::string quote_if_needed(std::string_view text);

// A part of a text with names in braces, such as "run-{rank}.log".
struct PatternPart {
  std::string text;  // literal text, or the name without its braces
  bool is_name = false;
};
enum class PatternError { unclosed_brace, unopened_brace };
// Splits such a text. "{{" and "}}" mean single braces. Does not check names; one may be empty.
Result<std::vector<PatternPart>, PatternError> parse_pattern(std::string_view text);

using TableRow = std::vector<std::string>;

// Returns a table for a terminal, one line per row. Columns are as wide as their widest word (in
// characters) and two blanks apart; lines have no blanks at their ends. All rows have as many
// columns as the first.
std::vector<std::string> table_lines(const std::vector<TableRow>& rows);

// Removes blanks, tabs and carriage returns from both ends.
std::string_view trim(std::string_view text);

// Returns ranks as ranges, sorted and without repeats: "0-1,3". `ranks` may have any order.
std::string fold_ranks(std::span<const int> ranks);
// Returns fold_ranks() with a word before it: "rank 2", "ranks 0-1,3".
std::string describe_ranks(std::span<const int> ranks);

// Returns the text if it has at most `most` bytes. Otherwise keeps the first quarter and the last
// three quarters of that much, with a line between them that says how much was left out. Cuts
// between lines; in a line that is too long, between characters of UTF-8. `most` is at least 200.
std::string without_middle(std::string_view text, std::size_t most);

// ---- Fixed fields and hexadecimal

// Copies text into a fixed field and adds a NUL. Cuts what does not fit.
void copy_text(std::span<char> field, std::string_view text);

// Returns the text of a fixed field, up to its NUL or its end.
std::string_view field_text(std::span<const char> field);

// Returns two hexadecimal digits for each byte.
std::string to_hex(std::span<const std::uint8_t> bytes);

// Returns nullopt unless the text is an even number of hexadecimal digits.
std::optional<std::vector<std::uint8_t>> from_hex(std::string_view text);

}  // namespace common
