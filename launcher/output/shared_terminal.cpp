#include "output/shared_terminal.hpp"

#include "common/text.hpp"
#include "output/own_line.hpp"

#include <algorithm>
#include <utility>

namespace hvdrun {
namespace {

constexpr std::string_view kEraseRow = "\r\x1b[K";
constexpr std::string_view kPlainText = "\x1b[0m";

}  // namespace

void SharedTerminal::write(std::string_view bytes) {
  erase_status();
  queue_.append(bytes);
  state_.feed(bytes);
  weave();
}

void SharedTerminal::weave() {
  const auto end = lines_.view().rfind('\n');
  if (end == std::string_view::npos) return;
  if (state_.has_full_screen() || !state_.is_between_characters()) return drop_oldest();
  erase_status();
  show_lines(lines_.view().substr(0, end + 1));
  lines_.drop(end + 1);
}

void SharedTerminal::show_lines(std::string_view lines) {
  const std::string below = state_.line_to_repeat(columns_ ? columns_() : 0);
  if (!state_.is_at_line_start()) queue_.append(below.empty() ? line_end() : kEraseRow);
  if (state_.has_color()) queue_.append(kPlainText);
  if (dropped_ > 0) {
    queue_.append(own_line(
        plural(dropped_, "line") + " of other ranks left out: a program had the whole screen",
        false));
    queue_.append(line_end());
    dropped_ = 0;
  }
  while (!lines.empty()) {
    const auto end = lines.find('\n');
    queue_.append(lines.substr(0, end));
    queue_.append(line_end());
    lines.remove_prefix(end + 1);
  }
  if (below.empty())
    state_.end_line();
  else
    queue_.append(below);
}

void SharedTerminal::drop_oldest() {
  if (lines_.size() <= kMostWaiting) return;
  const auto lines = lines_.view();
  const auto end = lines.find('\n', lines.size() - kMostWaiting - 1);
  const auto dropped =
      lines.substr(0, end == std::string_view::npos ? lines.rfind('\n') + 1 : end + 1);
  dropped_ += static_cast<std::size_t>(std::count(dropped.begin(), dropped.end(), '\n'));
  lines_.drop(dropped.size());
}

void SharedTerminal::leave() {
  erase_status();
  queue_.append(state_.undo());
  if (!state_.is_at_line_start()) queue_.append(line_end());
  state_ = {};
  weave();
}

void SharedTerminal::status(std::vector<std::string> fields) {
  if (fields == status_) return;
  erase_status();
  status_ = std::move(fields);
}

void SharedTerminal::draw_status() {
  if (status_shown_ || status_.empty() || !columns_ || !state_.is_at_line_start()) return;
  const std::string text = fit_fields(status_, columns_() - 1);
  if (text.empty()) return;
  queue_.append(kNoWrap);
  queue_.append(text);
  queue_.append(kWrap);
  status_shown_ = true;
}

void SharedTerminal::erase_status() {
  if (!std::exchange(status_shown_, false)) return;
  queue_.append(kEraseStatus);
}

std::string SharedTerminal::undo() const {
  return status_shown_ ? std::string(kUndoStatus) : state_.undo();
}

}  // namespace hvdrun
