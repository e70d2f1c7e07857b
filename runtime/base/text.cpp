#include "base/text.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace libhvd {

std::string describe_ranks(std::span<const int> ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + fold_ranks(ranks);
}

std::string fold_ranks(std::span<const int> ranks) {
  std::string text;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (first > 0) text += ',';
    text += std::to_string(ranks[first]);
    if (last > first) text += '-' + std::to_string(ranks[last]);
    first = last + 1;
  }
  return text;
}

void copy_text(std::span<char> field, std::string_view text) {
  const std::size_t length = std::min(text.size(), field.size() - 1);
  std::memcpy(field.data(), text.data(), length);
  field[length] = '\0';
}

namespace {

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U;
}

// A place in text at or before `at` to end at: behind a newline that is not too far away.
std::size_t end_before(std::string_view text, std::size_t at) {
  const std::size_t newline = text.substr(0, at).rfind('\n');
  if (newline != std::string_view::npos && newline >= at / 2) return newline + 1;
  while (at > 0 && continues_character(text[at])) --at;
  return at;
}

// The same at or behind `at`, to begin at.
std::size_t begin_behind(std::string_view text, std::size_t at) {
  const std::size_t newline = text.find('\n', at - 1);
  if (newline != std::string_view::npos && newline + 1 - at <= (text.size() - at) / 2)
    return newline + 1;
  while (at < text.size() && continues_character(text[at])) ++at;
  return at;
}

}  // namespace

std::string without_middle(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  constexpr std::size_t kNote = 80;  // room for the line between, and a newline before it
  const std::size_t room = most - kNote;
  const std::size_t end = end_before(text, room / 4);
  const std::size_t begin = begin_behind(text, text.size() - (room - room / 4));
  const std::string_view left_out = text.substr(end, begin - end);
  const auto lines = std::count(left_out.begin(), left_out.end(), '\n');
  std::string shortened(text.substr(0, end));
  if (!shortened.ends_with('\n')) shortened += '\n';
  shortened += "  [... " + (lines > 1 ? std::to_string(lines) + " lines, " : std::string()) +
               std::to_string(left_out.size()) + " bytes left out ...]\n";
  shortened += text.substr(begin);
  return shortened;
}

std::string_view field_text(std::span<const char> field) {
  return {field.data(), ::strnlen(field.data(), field.size())};
}

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
