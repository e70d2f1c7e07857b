// Small pieces of message text.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace libhvd {

// "rank 2", "ranks 0-1,3": ascending rank numbers in the field's short form.
std::string describe_ranks(std::span<const int> ranks);
std::string fold_ranks(std::span<const int> ranks);  // "0-1,3"

// Copies text into a fixed, NUL terminated field; what does not fit is cut.
void copy_text(std::span<char> field, std::string_view text);

// The text if it has at most `most` bytes; else its beginning and, three times as much, its end,
// with a line between that says how much is left out. Cut between lines, or where one of them is
// too long between characters of UTF-8. `most` is at least 200.
std::string without_middle(std::string_view text, std::size_t most);

// The text of a fixed field, up to its NUL or its end.
std::string_view field_text(std::span<const char> field);

}  // namespace libhvd
