#include "output/last_lines.hpp"

namespace hvdrun {

void LastLines::add(std::string_view bytes) {
  const std::size_t last_newline = bytes.rfind('\n');
  if (last_newline == std::string_view::npos) return extend(bytes);

  // Finds where the last kLines lines of this chunk begin. Skips the lines before them.
  std::size_t begin = last_newline;
  std::size_t newline = last_newline;
  for (std::size_t count = 0; count < kLines; ++count) {
    newline = begin == 0 ? std::string_view::npos : bytes.rfind('\n', begin - 1);
    if (newline == std::string_view::npos) {
      begin = 0;
      break;
    }
    begin = newline;
  }
  if (newline != std::string_view::npos) {
    begin = newline + 1;
    unfinished_.clear();
    after_return_ = false;
  }
  while (begin <= last_newline) {
    const std::size_t end = bytes.find('\n', begin);
    finish(bytes.substr(begin, end - begin));
    begin = end + 1;
  }
  extend(bytes.substr(begin));
}

void LastLines::extend(std::string_view piece) {
  if (piece.empty()) return;
  const std::size_t end = piece.find_last_not_of('\r') + 1;  // 0 if all bytes are "\r"
  std::string_view text = piece.substr(0, end);
  const std::size_t overwriting = text.rfind('\r');
  if (overwriting != std::string_view::npos) text.remove_prefix(overwriting + 1);
  if (overwriting != std::string_view::npos || (after_return_ && !text.empty()))
    unfinished_.clear();
  after_return_ = end < piece.size() || (after_return_ && text.empty());
  unfinished_.append(text.substr(0, kLength - unfinished_.size()));
}

void LastLines::finish(std::string_view piece) {
  extend(piece);
  after_return_ = false;
  if (ring_.size() < kLines) {
    ring_.push_back(unfinished_);
  } else {
    ring_[next_].assign(unfinished_);
    next_ = (next_ + 1) % kLines;
  }
  unfinished_.clear();
}

std::vector<std::string> LastLines::lines() const {
  std::vector<std::string> lines;
  lines.reserve(kLines + 1);
  for (std::size_t i = 0; i < ring_.size(); ++i) lines.push_back(ring_[(next_ + i) % ring_.size()]);
  if (!unfinished_.empty()) lines.push_back(unfinished_);
  if (lines.size() > kLines) lines.erase(lines.begin());
  return lines;
}

}  // namespace hvdrun
