#include "output/line_assembler.hpp"

#include "output/unfinished_character.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace hvdrun {

namespace {

constexpr std::size_t kStdioBlock = 4096;
constexpr std::size_t kKeptOfLine = 64 * 1024;
constexpr std::string_view kMoveUp = "\x1b[A";  // CUU (ECMA-48, 8.3.22)

std::size_t distance(const char* from, const char* to) {
  return static_cast<std::size_t>(to - from);
}

const char* find(const char* from, const char* end, char byte) {
  return static_cast<const char*>(std::memchr(from, byte, distance(from, end)));
}

// Returns the first "\r" that is not part of a "\r\n", or that follows a move up; else `end`. A
// "\r" at the very end is one: its "\n" may follow.
const char* find_lone_return(const char* from, const char* end) {
  for (const char* begin = from; from != end;) {
    const char* found = find(from, end, '\r');
    if (found == nullptr || found + 1 == end) return found == nullptr ? end : found;
    if (found[1] != '\n' || std::string_view(begin, distance(begin, found)).ends_with(kMoveUp))
      return found;
    from = found + 2;
  }
  return end;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(' ') == std::string_view::npos;
}

}  // namespace

void LineAssembler::feed(Outlet& outlet, std::string_view bytes, OutputTime time, Steady now) {
  if (bytes.empty()) return;
  last_byte_ = now;
  full_block_ = bytes.size() % kStdioBlock == 0;
  const char* from = bytes.data();
  const char* const end = from + bytes.size();
  while (from != end) {
    if (!is_between_lines()) {
      const char* newline = find(from, end, '\n');
      if (newline == nullptr) return extend(outlet, {from, distance(from, end)}, time, now);
      finish(outlet, {from, distance(from, newline + 1)}, time, now);
      from = newline + 1;
      continue;
    }
    const char* plain_end = find_lone_return(from, end);
    const auto* newline =
        static_cast<const char*>(::memrchr(from, '\n', distance(from, plain_end)));
    if (newline != nullptr) {
      const std::string_view lines(from, distance(from, newline + 1));
      if (outlet.folder != nullptr)
        outlet.folder->add(rank_, stream_, lines, time, outlet.now);
      else
        outlet.screen.whole_lines(label(outlet, time), lines);
      from = newline + 1;
      if (from == end) return;
    }
    // The next line is unfinished or has progress in it.
    newline = find(from, end, '\n');
    if (newline == nullptr) return extend(outlet, {from, distance(from, end)}, time, now);
    finish(outlet, {from, distance(from, newline + 1)}, time, now);
    from = newline + 1;
  }
}

void LineAssembler::extend(Outlet& outlet, std::string_view piece, OutputTime time, Steady now) {
  for (;;) {
    const std::size_t end = piece.find('\r');
    add_text(outlet, piece.substr(0, end), time, now);
    if (end == std::string_view::npos) return;
    piece.remove_prefix(end + 1);
    after_return_ = true;
    if (!progress_) progress_mark_ = now;
    progress_ = true;
  }
}

void LineAssembler::add_text(Outlet& outlet, std::string_view text, OutputTime time, Steady now) {
  if (text.empty()) return;
  if (after_return_) {
    take_moves(outlet);
    begin_text(outlet);
    overwritten_ = true;
    after_return_ = false;
  }
  const std::size_t from = text_.size() - std::min(text_.size(), kMoveUp.size() - 1);
  if (text_.empty()) {
    unshown_since_ = now;
    if (!begun_) began_ = time;
  }
  append(outlet, text);
  fresh_ = true;
  if (overwritten_) take_moves(outlet, from);
}

void LineAssembler::append(Outlet& outlet, std::string_view piece) {
  // A line is broken at its own limit, or if all unfinished lines of the job together reach theirs.
  const auto break_line = [&, progress = progress_] {
    const auto rest = take_unfinished_character(outlet);
    close(outlet);
    begun_ = true;
    progress_ = progress;
    give_back(outlet, rest);
  };
  while (text_.size() + piece.size() > kMaxLine) {
    const std::size_t fits = kMaxLine - text_.size();
    text_.append(piece.substr(0, fits));
    outlet.held += fits;
    piece.remove_prefix(fits);
    break_line();
  }
  text_.append(piece);
  outlet.held += piece.size();
  if (outlet.held > kMaxHeld) break_line();
}

void LineAssembler::take_moves(Outlet& outlet, std::size_t from) {
  const std::size_t at = text_.find(kMoveUp, std::min(from, text_.size()));
  if (at == std::string::npos) return;
  const bool returned = after_return_;
  const std::string taken = text_.substr(at);
  outlet.held -= taken.size();
  text_.resize(at);
  for (std::string_view rest = taken; !rest.empty();) {
    rest.remove_prefix(kMoveUp.size());
    rows_up_ = std::min(rows_up_ + 1, kMostRows);
    overwritten_ = after_return_ = moved_ = true;
    const std::string_view text = rest.substr(0, rest.find(kMoveUp));
    rest.remove_prefix(text.size());
    if (text.empty()) continue;
    begin_text(outlet);
    give_back(outlet, text);
    after_return_ = returned;
  }
}

void LineAssembler::begin_text(Outlet& outlet) {
  if (begun_) {
    if (text_row_ != rows_up_ && !text_.empty()) show_end(outlet, "\n");
    drop_row(outlet);
  } else if (!text_.empty()) {
    rows_[text_row_].swap(text_);
  }
  drop_text(outlet);
  text_row_ = rows_up_;
  begun_ = false;
}

void LineAssembler::finish(Outlet& outlet, std::string_view piece, OutputTime time, Steady now) {
  const std::string_view body = piece.substr(0, piece.size() - 1);
  const std::size_t end = body.find_last_not_of('\r') + 1;  // 0 if all bytes are "\r"
  const bool had_progress = progress_;
  if (text_.empty() && !begun_) began_ = time;
  extend(outlet, body.substr(0, end), time, now);
  if (end < body.size()) after_return_ = true;
  if (after_return_ && text_.ends_with(kMoveUp)) take_moves(outlet);
  if (rows_up_ > 0) {
    --rows_up_;
    if (!progress_) progress_mark_ = now;
    after_return_ = progress_ = true;
    return;
  }
  progress_ = had_progress;
  show_rows(outlet, after_return_ ? "\r\n" : piece.substr(piece.size() - 1));
  reset_line(outlet);
}

void LineAssembler::close(Outlet& outlet) {
  if (after_return_) take_moves(outlet);
  if (begun_ || !text_.empty() || !rows_.empty()) show_rows(outlet, "\n");
  reset_line(outlet);
}

void LineAssembler::show_rows(Outlet& outlet, std::string_view tail) {
  if (!moved_) return show_end(outlet, tail);
  if (begun_) {
    show_end(outlet, "\n");
    drop_row(outlet);
  } else if (!text_.empty()) {
    rows_[text_row_].swap(text_);
  }
  if (outlet.folder != nullptr) outlet.folder->show_lines_of(rank_);
  for (const auto& [row, text] : rows_)
    if (!is_blank(text)) outlet.screen.line(owner(), label(outlet, began_), text, "\n");
}

void LineAssembler::show_end(Outlet& outlet, std::string_view tail) {
  if (outlet.folder != nullptr && !begun_ && !progress_ && text_.size() < LineFolder::kLongestLine)
    return outlet.folder->add(rank_, stream_, text_ + std::string(tail), began_, outlet.now);
  if (outlet.folder != nullptr) outlet.folder->show_lines_of(rank_);
  if (begun_)
    outlet.screen.rest(owner(), label(outlet, began_), text_, tail);
  else
    outlet.screen.line(owner(), label(outlet, began_), text_, tail);
}

void LineAssembler::drop_text(Outlet& outlet) {
  outlet.held -= text_.size();
  if (text_.capacity() > kKeptOfLine)
    std::string().swap(text_);
  else
    text_.clear();
}

void LineAssembler::drop_row(Outlet& outlet) {
  const auto row = rows_.find(text_row_);
  if (row == rows_.end()) return;
  outlet.held -= row->second.size();
  rows_.erase(row);
}

void LineAssembler::reset_line(Outlet& outlet) {
  drop_text(outlet);
  for (const auto& [row, text] : rows_) outlet.held -= text.size();
  rows_.clear();
  begun_ = after_return_ = progress_ = fresh_ = progress_shown_ = overwritten_ = moved_ = false;
  rows_up_ = text_row_ = 0;
}

std::optional<LineAssembler::Steady> LineAssembler::due(const Outlet& outlet,
                                                        Steady quiet_from) const {
  if (!waits()) return std::nullopt;
  const Steady quiet = std::max(last_byte_, quiet_from) + kQuiet;
  if (progress_) {
    const std::string_view label = outlet.labels.of(rank_, stream_, began_);
    if (!begun_ && outlet.screen.can_redraw(label, text_)) return progress_mark_ + kRedrawEvery;
    const Steady next = progress_mark_ + kProgressEvery;
    return progress_shown_ ? next : std::min(quiet, next);
  }
  if (full_block_) return std::nullopt;
  if (!outlet.screen.is_terminal()) return std::max(last_byte_, quiet_from) + kQuietInFile;
  const bool is_short = text_.size() <= kShortLine;
  return is_short ? std::max(unshown_since_, quiet_from) + kQuiet : quiet;
}

std::string LineAssembler::take_unfinished_character(Outlet& outlet) {
  const std::size_t size = unfinished_character(text_);
  std::string taken = text_.substr(text_.size() - size);
  text_.resize(text_.size() - size);
  outlet.held -= size;
  return taken;
}

void LineAssembler::give_back(Outlet& outlet, std::string_view bytes) {
  text_.append(bytes);
  outlet.held += bytes.size();
}

void LineAssembler::show_unfinished(Outlet& outlet, Steady now) {
  if (after_return_) take_moves(outlet);
  if (outlet.folder != nullptr) outlet.folder->show_lines_of(rank_);
  const std::string_view before = label(outlet, began_);
  const auto rest = take_unfinished_character(outlet);
  fresh_ = false;
  bool stays = text_.empty();
  if (!stays && progress_) {
    progress_mark_ = now;
    progress_shown_ = true;
    stays = outlet.screen.progress(owner(), before, text_);
  } else if (!stays) {
    outlet.screen.partial(owner(), before, text_);
  }
  if (!stays) {
    // From here on only new text is shown.
    drop_text(outlet);
    begun_ = true;
    unshown_since_ = now;
  }
  give_back(outlet, rest);
}

}  // namespace hvdrun
