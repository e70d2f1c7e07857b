#include "output/line_assembler.hpp"

#include "output/unfinished_character.hpp"

#include <algorithm>
#include <cstring>

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

// Returns the first "\r" that is not part of a "\r\n", or `end`. A "\r" at the very end is one: its
// "\n" may follow.
const char* find_lone_return(const char* from, const char* end) {
  while (from != end) {
    const char* found = find(from, end, '\r');
    if (found == nullptr || found + 1 == end) return found == nullptr ? end : found;
    if (found[1] != '\n') return found;
    from = found + 2;
  }
  return end;
}

struct Segments {
  std::string_view last;     // the text after the last "\r" that overwrites
  bool overwrites = false;   // the piece has such a "\r"
  bool ends_return = false;  // "\r" at the end
};

Segments split_returns(std::string_view piece) {
  Segments segments;
  const std::size_t end = piece.find_last_not_of('\r') + 1;  // 0 if all bytes are "\r"
  segments.ends_return = end < piece.size();
  segments.last = piece.substr(0, end);
  const std::size_t overwriting = segments.last.rfind('\r');
  segments.overwrites = overwriting != std::string_view::npos;
  if (segments.overwrites) segments.last.remove_prefix(overwriting + 1);
  return segments;
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
  piece = take_moves(piece);
  const Segments segments = split_returns(piece);
  const bool overwrites = segments.overwrites || (after_return_ && !segments.last.empty());
  if ((overwrites || segments.ends_return) && !progress_) {
    progress_ = true;
    progress_mark_ = now;
  }
  if (overwrites) {
    drop_text(outlet);
    begun_ = false;
  }
  if (!segments.last.empty()) {
    if (text_.empty()) {
      unshown_since_ = now;
      if (!begun_) began_ = time;
    }
    append(outlet, segments.last);
    fresh_ = true;
    after_return_ = false;
  }
  after_return_ = after_return_ || segments.ends_return;
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

std::string_view LineAssembler::take_moves(std::string_view piece) {
  const bool is_bar = progress_ || piece.find('\r') != std::string_view::npos;
  if (!is_bar || piece.find(kMoveUp) == std::string_view::npos) return piece;
  moved_ = piece;
  for (auto at = moved_.find(kMoveUp); at != std::string::npos; at = moved_.find(kMoveUp, at)) {
    moved_.replace(at, kMoveUp.size(), "\r");
    ++rows_up_;
  }
  return moved_;
}

void LineAssembler::finish(Outlet& outlet, std::string_view piece, OutputTime time, Steady now) {
  const std::string_view body = take_moves(piece.substr(0, piece.size() - 1));
  if (rows_up_ > 0) {
    --rows_up_;
    return extend(outlet, std::string(body) + "\r", time, now);
  }
  const Segments segments = split_returns(body);
  std::string_view tail = piece.substr(piece.size() - 1);
  if (segments.ends_return || (after_return_ && segments.last.empty())) tail = "\r\n";

  if (segments.overwrites || (after_return_ && !segments.last.empty())) {
    drop_text(outlet);
    begun_ = false;
  }
  if (text_.empty() && !begun_) began_ = time;
  text_.append(segments.last);
  outlet.held += segments.last.size();
  show_end(outlet, tail);
  reset_line(outlet);
}

void LineAssembler::close(Outlet& outlet) {
  if (begun_ || !text_.empty()) show_end(outlet, "\n");
  reset_line(outlet);
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

void LineAssembler::reset_line(Outlet& outlet) {
  drop_text(outlet);
  begun_ = after_return_ = progress_ = fresh_ = progress_shown_ = false;
  rows_up_ = 0;
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
