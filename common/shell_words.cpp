#include "common/shell_words.hpp"

#include <algorithm>

namespace common {
namespace {

bool is_control(char letter) {
  return static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f;
}

// Returns whether no shell gives the letter a meaning in a word.
bool is_plain(char letter) {
  constexpr std::string_view kOthers = "_@%+=:,./-";
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || kOthers.find(letter) != std::string_view::npos;
}

// Returns the value in bash's $'…', with C's escapes.
std::string quote_with_escapes(std::string_view value) {
  std::string quoted = "$'";
  for (const char letter : value) {
    if (letter == '\n') {
      quoted += "\\n";
    } else if (letter == '\t') {
      quoted += "\\t";
    } else if (is_control(letter)) {
      // Writes three octal digits, the most that bash reads, so that a digit after them is not part
      // of the escape.
      const auto byte = static_cast<unsigned char>(letter);
      quoted += '\\';
      for (const int shift : {6, 3, 0}) quoted += static_cast<char>('0' + ((byte >> shift) & 7));
    } else {
      if (letter == '\'' || letter == '\\') quoted += '\\';
      quoted += letter;
    }
  }
  return quoted + "'";
}

}  // namespace

std::string quote_for_shell(std::string_view value) {
  if (!value.empty() && std::all_of(value.begin(), value.end(), is_plain))
    return std::string(value);
  if (std::any_of(value.begin(), value.end(), is_control)) return quote_with_escapes(value);
  std::string quoted = "'";
  for (const char letter : value) {
    if (letter == '\'') {
      quoted += "'\\''";
    } else {
      quoted += letter;
    }
  }
  return quoted + "'";
}

std::string quote_with_variables(std::string_view value) {
  if (value.find('$') == std::string_view::npos) return quote_for_shell(value);
  std::string quoted = "\"";
  for (const char letter : value) {
    if (letter == '"' || letter == '\\' || letter == '`') quoted += '\\';
    quoted += letter;
  }
  return quoted + "\"";
}

std::string shell_line(std::span<const std::string> words) {
  std::string line;
  for (const auto& word : words) line += (line.empty() ? "" : " ") + quote_for_shell(word);
  return line;
}

}  // namespace common
