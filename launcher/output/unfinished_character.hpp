// Where a text may be cut: never inside a character of UTF-8. A pure function, for any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace hvdrun {

// Returns how many bytes at the end of the text begin a character of UTF-8 and do not complete it:
// 0 to 3. Bytes that are not UTF-8 may be cut anywhere.
inline std::size_t unfinished_character(std::string_view text) {
  for (std::size_t size = 1; size <= std::min<std::size_t>(3, text.size()); ++size) {
    const auto byte = static_cast<unsigned char>(text[text.size() - size]);
    if ((byte & 0xc0) == 0x80) continue;
    const std::size_t whole = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 1;
    return byte < 0xf5 && whole > size ? size : 0;
  }
  return 0;
}

}  // namespace hvdrun
