#include "slurm/quoting.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {

namespace {

bool is_control(char letter) {
  return static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f;
}

bool holds_only(std::string_view text, std::string_view others) {
  return std::all_of(text.begin(), text.end(), [&](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || others.find(letter) != std::string_view::npos;
  });
}

// Returns the name in a $NAME or ${NAME} that begins the text, and the length of the whole. The
// name is empty if the text does not begin with one.
std::pair<std::string_view, std::size_t> variable_at(std::string_view text) {
  const bool braces = text.substr(0, 2) == "${";
  const std::size_t begin = braces ? 2 : 1;
  const auto rest = text.substr(std::min(begin, text.size()));
  std::size_t size = 0;
  while (size < rest.size() && holds_only(rest.substr(size, 1), "_")) ++size;
  const auto name = rest.substr(0, size);
  if (name.empty() || (name.front() >= '0' && name.front() <= '9')) return {};
  if (!braces) return {name, begin + size};
  if (rest.substr(size, 1) != "}") return {};
  return {name, begin + size + 1};
}

}  // namespace

bool is_expandable(std::string_view value) {
  for (auto at = value.find('$'); at != std::string_view::npos; at = value.find('$')) {
    value.remove_prefix(at);
    const auto [name, length] = variable_at(value);
    if (name.empty()) return false;
    value.remove_prefix(length);
  }
  return true;
}

std::string quote_for_shell_expanding(std::string_view value) {
  std::string quoted;
  while (!value.empty()) {
    const auto literal = value.substr(0, value.find('$'));
    if (!literal.empty()) quoted += quote_for_shell(literal);
    value.remove_prefix(literal.size());
    if (value.empty()) break;
    const auto [name, length] = variable_at(value);
    quoted += name.empty() ? "'$'" : fmt::format("\"${{{}:?}}\"", name);
    value.remove_prefix(name.empty() ? 1 : length);
  }
  return quoted;
}

std::string quote_for_shell_with_index(std::string_view value) {
  if (value.empty()) return quote_for_shell(value);
  std::string quoted;
  while (!value.empty()) {
    const auto literal = value.substr(0, value.find(kIndexPlace));
    if (!literal.empty()) quoted += quote_for_shell(literal);
    value.remove_prefix(literal.size());
    if (value.empty()) break;
    quoted += R"("${SLURM_ARRAY_TASK_ID:?}")";
    value.remove_prefix(kIndexPlace.size());
  }
  return quoted;
}

std::string quote_for_directive(std::string_view argument) {
  if (argument.substr(0, 2) == "--") {
    const auto equals = argument.find('=');
    if (equals != std::string_view::npos && holds_only(argument.substr(0, equals), "-")) {
      const auto value = argument.substr(equals + 1);
      return std::string(argument.substr(0, equals + 1)) +
             (value.empty() ? "" : quote_for_directive(value));
    }
  }
  if (!argument.empty() && holds_only(argument, "_@%+=:,./-*[]{}()!?;&|<>^~$")) {
    return std::string(argument);
  }
  std::string quoted = "\"";
  for (const char letter : argument) {
    if (letter == '"' || letter == '\\') quoted += '\\';
    quoted += letter;
  }
  return quoted + "\"";
}

bool fits_directive(std::string_view value) {
  return std::none_of(value.begin(), value.end(), is_control);
}

std::string quote_for_comment(std::string_view value) {
  std::string text(value);
  std::replace_if(text.begin(), text.end(), is_control, ' ');
  return text;
}

}  // namespace hvdrun
