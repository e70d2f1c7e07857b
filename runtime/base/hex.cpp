#include "base/hex.hpp"

#include <charconv>

namespace libhvd {

std::string to_hex(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 0xf];
  }
  return text;
}

std::optional<std::vector<std::uint8_t>> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::vector<std::uint8_t> bytes(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char* first = text.data() + 2 * i;
    const auto [stop, code] = std::from_chars(first, first + 2, bytes[i], 16);
    if (code != std::errc() || stop != first + 2) return std::nullopt;
  }
  return bytes;
}

}  // namespace libhvd
