#include "trace/json.hpp"

#include <cstddef>

namespace libhvd {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

// Returns the number of bytes of the UTF-8 sequence that begins the text; 0 if it is not valid (RFC
// 3629, section 4).
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool surrogate = first == 0xed && byte(1) > 0x9f;
  const bool too_large = first == 0xf4 && byte(1) > 0x8f;
  return overlong || surrogate || too_large ? 0 : length;
}

void append_control(std::string& json, unsigned char byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  json += "\\u00";
  json += kDigits[byte >> 4];
  json += kDigits[byte & 15];
}

}  // namespace

void append_json_string(std::string& json, std::string_view bytes) {
  json += '"';
  while (!bytes.empty()) {
    const std::size_t length = sequence_length(bytes);
    const char front = bytes.front();
    if (length == 0) {
      json += kReplacement;
    } else if (front == '"' || front == '\\') {
      json += '\\';
      json += front;
    } else if (static_cast<unsigned char>(front) < 0x20) {
      append_control(json, static_cast<unsigned char>(front));
    } else {
      json += bytes.substr(0, length);
    }
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  json += '"';
}

void append_microseconds(std::string& json, std::int64_t ns) {
  if (ns < 0) {
    json += '-';
    ns = -ns;
  }
  json += std::to_string(ns / 1000);
  std::string fraction = std::to_string(ns % 1000 + 1000);
  fraction.front() = '.';
  json += fraction;
}

}  // namespace libhvd
