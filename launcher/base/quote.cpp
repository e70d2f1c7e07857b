#include "base/quote.hpp"

#include <algorithm>

namespace hvdrun {
namespace {

constexpr std::size_t kLongest = 1024;

void append_hex(std::string& out, unsigned char byte) {
  static constexpr char kDigits[] = "0123456789abcdef";
  out += "\\x";
  out += kDigits[byte >> 4];
  out += kDigits[byte & 15];
}

void append_escaped(std::string& out, unsigned char byte) {
  if (byte == '\n') {
    out += "\\n";
  } else if (byte == '\t') {
    out += "\\t";
  } else if (byte == '\r') {
    out += "\\r";
  } else if (byte < 0x20 || byte == 0x7f) {
    append_hex(out, byte);
  } else {
    out += static_cast<char>(byte);
  }
}

// How many bytes the character at the text's begin has; 1 where it is not UTF-8.
std::size_t character_size(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 1;
  if (size > text.size()) return 1;
  const bool whole =
      std::all_of(text.begin() + 1, text.begin() + static_cast<std::ptrdiff_t>(size),
                  [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; });
  return whole ? size : 1;
}

// Where to cut so that no UTF-8 character is cut in two.
std::size_t cut_position(std::string_view text) {
  std::size_t cut = kLongest;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) --cut;
  return cut;
}

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) append_escaped(out, static_cast<unsigned char>(c));
  return out;
}

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    const auto first = static_cast<unsigned char>(text.front());
    const auto last = static_cast<unsigned char>(text[size - 1]);
    const bool is_c0 = (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f;
    // U+0080 to U+009F, or a byte of these numbers, which is one on a terminal of 8 bits.
    const bool is_c1 = (size == 1 || (size == 2 && first == 0xc2)) && last >= 0x80 && last < 0xa0;
    if (is_c0 || is_c1)
      append_hex(out, last);
    else
      out += text.substr(0, size);
    text.remove_prefix(size);
  }
  return out;
}

std::string quote(std::string_view text) {
  const bool is_long = text.size() > kLongest;
  std::string out = "\"" + escape(is_long ? text.substr(0, cut_position(text)) : text);
  if (is_long) out += "…";
  out += '"';
  return out;
}

std::string quote_if_needed(std::string_view text) {
  const bool is_plain = !text.empty() && text.size() <= kLongest &&
                        std::all_of(text.begin(), text.end(), [](unsigned char c) {
                          return c > ' ' && c != 0x7f && c != '"';
                        });
  return is_plain ? std::string(text) : quote(text);
}

}  // namespace hvdrun
