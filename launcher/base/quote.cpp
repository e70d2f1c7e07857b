#include "base/quote.hpp"

#include <algorithm>

namespace hvdrun {
namespace {

constexpr std::size_t kLongest = 1024;

void append_escaped(std::string& out, unsigned char byte) {
  static constexpr char kDigits[] = "0123456789abcdef";
  if (byte == '\n') {
    out += "\\n";
  } else if (byte == '\t') {
    out += "\\t";
  } else if (byte == '\r') {
    out += "\\r";
  } else if (byte < 0x20 || byte == 0x7f) {
    out += "\\x";
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  } else {
    out += static_cast<char>(byte);
  }
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
