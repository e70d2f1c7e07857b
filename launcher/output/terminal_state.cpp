#include "output/terminal_state.hpp"

#include "output/screen.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr char kEscape = '\x1b';
constexpr std::size_t kMostParameters = 64;

// The private modes that programs set for themselves: keys (1), the mouse (9, 1000 to 1015), the
// full screen (47, 1047, 1049), pasted text in brackets (2004).
constexpr int kModes[] = {1, 9, 47, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1047, 1049, 2004};
constexpr int kFullScreens[] = {47, 1047, 1049};
// Those that are on at first: lines are folded, the cursor is shown.
constexpr int kOnAtFirst[] = {7, 25};

template <std::size_t size>
bool has(const int (&modes)[size], int mode) {
  return std::find(std::begin(modes), std::end(modes), mode) != std::end(modes);
}

// Sequences that stay in the row, and that a terminal does not answer.
bool stays_in_row(char last) {
  return std::string_view("CDGKPX@mhl").find(last) != std::string_view::npos;
}

}  // namespace

void TerminalState::feed(std::string_view bytes) {
  for (const char byte : bytes) take(static_cast<unsigned char>(byte));
}

void TerminalState::take(unsigned char byte) {
  const char c = static_cast<char>(byte);
  if (at_ == At::text && c == '\n') {
    missing_ = 0;
    return end_line();
  }
  const bool is_bell = at_ == At::text && c == '\a';
  if (is_kept_ && !is_bell) line_ += c;
  if (line_.size() > kMostLine) {
    line_.clear();
    is_kept_ = false;
  }
  switch (at_) {
    case At::text:
      if (c == kEscape) {
        missing_ = 0;
        at_ = At::escape;
      } else if ((byte & 0xc0) == 0x80) {
        missing_ = std::max(0, missing_ - 1);
      } else {
        missing_ = byte < 0xc0 ? 0 : byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
        if (c == '\v' || c == '\f') is_kept_ = false;
      }
      return;
    case At::escape:
      at_ = At::text;
      if (c == '[') {
        parameters_.clear();
        at_ = At::sequence;
      } else if (c == ']' || c == 'P' || c == '_' || c == '^' || c == 'X') {
        at_ = At::string;
      } else if (c == '(' || c == ')' || c == '*' || c == '+' || c == '#' || c == '%') {
        at_ = At::charset;
      } else if (c == '=' || c == '>') {
        has_keypad_ = c == '=';
      } else {
        is_kept_ = false;  // moves the cursor, saves or restores it
      }
      return;
    case At::charset:
      at_ = At::text;
      return;
    case At::sequence:
      if (byte >= 0x40 && byte <= 0x7e) {
        at_ = At::text;
        end_sequence(c);
      } else if (parameters_.size() < kMostParameters) {
        parameters_ += c;
      }
      return;
    case At::string:
      if (c == '\a') at_ = At::text;
      if (c == kEscape) at_ = At::string_escape;
      return;
    case At::string_escape:
      at_ = c == '\\' ? At::text : At::string;
      return;
  }
}

void TerminalState::end_sequence(char last) {
  if (!stays_in_row(last)) is_kept_ = false;
  if (last == 'm') has_color_ = !parameters_.empty() && parameters_ != "0";
  if ((last != 'h' && last != 'l') || !parameters_.starts_with('?')) return;
  for (const char* at = parameters_.c_str(); at != nullptr && *at != '\0';) {
    const int mode = std::atoi(at + 1);
    const bool is_odd =
        (last == 'h' && has(kModes, mode)) || (last == 'l' && has(kOnAtFirst, mode));
    if (has(kFullScreens, mode)) is_kept_ = false;
    if (is_odd)
      modes_.insert(mode);
    else
      modes_.erase(mode);
    const auto next = std::string_view(at + 1).find(';');
    at = next == std::string_view::npos ? nullptr : at + 1 + next;
  }
}

bool TerminalState::has_full_screen() const {
  return std::any_of(modes_.begin(), modes_.end(),
                     [](int mode) { return has(kFullScreens, mode); });
}

std::string TerminalState::line_to_repeat(int columns) const {
  if (!is_kept_) return {};
  for (std::string_view rest = line_; !rest.empty();) {
    const auto end = std::min(rest.find('\r'), rest.size());
    if (display_columns(rest.substr(0, end)) >= columns) return {};
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return line_;
}

void TerminalState::end_line() {
  line_.clear();
  is_kept_ = !has_full_screen();
}

std::string TerminalState::undo() const {
  std::string undo;
  for (const int mode : modes_)
    undo += fmt::format("\x1b[?{}{}", mode, has(kOnAtFirst, mode) ? 'h' : 'l');
  if (has_keypad_) undo += "\x1b>";
  if (has_color_) undo += "\x1b[0m";
  return undo;
}

}  // namespace hvdrun
