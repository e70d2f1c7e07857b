#include "commands/markup.hpp"

#include <cstddef>

namespace hvdrun::scale {
namespace {

// Returns the length of the text's first character in bytes; 0 if it is not UTF-8 (RFC 3629).
std::size_t length_of_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xc2 && first < 0xe0   ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0u) != 0x80) return 0;
  const unsigned second = byte(1);
  // Refuses overlong forms, surrogates, what is past U+10FFFF, and U+FFFE and U+FFFF.
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
      (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90) ||
      (first == 0xef && second == 0xbf && byte(2) >= 0xbe))
    return 0;
  return length;
}

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const std::size_t length = length_of_character(text);
    const char c = text.front();
    if (length == 0 || (length == 1 && (c == 0x7f || (c < 0x20 && c != '\n' && c != '\t'))))
      escaped += "\xef\xbf\xbd";
    else if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '"')
      escaped += "&quot;";
    else
      escaped += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return escaped;
}

}  // namespace hvdrun::scale
