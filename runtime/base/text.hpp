// Small pieces of message text.
#pragma once

#include "base/result.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/random.h>

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

// Bytes as hexadecimal text.

std::string to_hex(std::span<const std::uint8_t> bytes);

// Nothing unless the text is an even number of hexadecimal digits.
std::optional<std::vector<std::uint8_t>> from_hex(std::string_view text);

// Bytes that nobody can guess, from getrandom(2).

// At most 256 bytes, which getrandom gives in one piece.
template <std::size_t kCount>
requires(kCount <= 256) Result<std::array<std::uint8_t, kCount>> random_bytes() {
  std::array<std::uint8_t, kCount> bytes{};
  if (::getrandom(bytes.data(), kCount, 0) != static_cast<ssize_t>(kCount)) {
    return fail_errno("cannot get random bytes", errno);
  }
  return bytes;
}

}  // namespace libhvd
