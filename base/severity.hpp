// How grave a line of hvdrun's own is: the word that its text begins with. A text without such a
// word is a note. output/own_line.hpp shows them. Pure functions for any thread.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun {

inline constexpr std::string_view kErrorWord = "error: ";
inline constexpr std::string_view kWarningWord = "warning: ";

inline std::string error_text(std::string_view message) {
  return std::string(kErrorWord).append(message);
}

inline std::string warning_text(std::string_view message) {
  return std::string(kWarningWord).append(message);
}

// Returns the text without the word.
inline std::string_view without_severity(std::string_view text) {
  for (const auto word : {kErrorWord, kWarningWord, std::string_view("note: ")})
    if (text.starts_with(word)) return text.substr(word.size());
  return text;
}

}  // namespace hvdrun
