#include "agent/stream_order.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include <sys/inotify.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// More writes than these are not ordered. A rank that is so far ahead writes more than can be read.
constexpr std::size_t kMostWrites = 16384;

std::size_t count_lines(std::string_view bytes) {
  const auto newlines = static_cast<std::size_t>(std::count(bytes.begin(), bytes.end(), '\n'));
  return newlines + (bytes.empty() || bytes.back() == '\n' ? 0 : 1);
}

// Takes the first line, or all, off the bytes.
std::string_view take(std::string_view& bytes, bool all) {
  const auto newline = all ? std::string_view::npos : bytes.find('\n');
  const auto taken =
      bytes.substr(0, newline == std::string_view::npos ? bytes.size() : newline + 1);
  bytes.remove_prefix(taken.size());
  return taken;
}

}  // namespace

StreamOrder::StreamOrder(int out, int err)
    : inotify_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)), pipes_{out, err} {
  watch(kOut);
  watch(kErr);
}

// Without an instance of inotify (fs.inotify.max_user_instances) there is no watch.
void StreamOrder::watch(Pipe pipe) {
  const auto path = "/proc/self/fd/" + std::to_string(pipes_[pipe]);
  watches_[pipe] = ::inotify_add_watch(inotify_.get(), path.c_str(), IN_MODIFY);
}

void StreamOrder::only(Pipe pipe) {
  writes_.clear();
  if (pipe != last_only_) {
    if (inotify_ && watches_[last_only_] < 0) watch(last_only_);
    last_only_ = pipe;
    times_only_ = 0;
  }
  times_only_ = std::min(times_only_ + 1, kBulk);
  if (times_only_ < kBulk || watches_[pipe] < 0) return;
  ::inotify_rm_watch(inotify_.get(), std::exchange(watches_[pipe], -1));
}

void StreamOrder::update() {
  if (!inotify_) return;
  alignas(inotify_event) std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t got = ::read(inotify_.get(), buffer.data(), buffer.size());
    if (got <= 0) return;
    const bool was_all = static_cast<std::size_t>(got) + sizeof(inotify_event) <= buffer.size();
    for (const char* at = buffer.data(); at < buffer.data() + got;) {
      inotify_event event;  // NOLINT: filled by memcpy
      std::memcpy(&event, at, sizeof event);
      at += sizeof event + event.len;
      if ((event.mask & IN_Q_OVERFLOW) != 0) writes_.clear();
      if ((event.mask & IN_MODIFY) != 0) add(event.wd == watches_[kErr] ? kErr : kOut);
    }
    if (was_all) return;
  }
}

void StreamOrder::add(Pipe pipe) {
  if (writes_.empty() || writes_.back() != pipe) writes_.push_back(pipe);
  if (writes_.size() > kMostWrites) writes_.clear();
}

std::vector<StreamOrder::Piece> StreamOrder::arrange(std::string_view out, std::string_view err) {
  std::array<std::string_view, 2> rest{out, err};
  std::array<std::size_t, 2> left{};  // writes to each pipe that are not looked at yet
  for (const Pipe pipe : writes_) ++left[pipe];
  const std::array<bool, 2> has_more_lines{count_lines(out) > left[kOut],
                                           count_lines(err) > left[kErr]};
  std::vector<Piece> pieces;
  const auto add_piece = [&](Pipe pipe, bool all) {
    if (rest[pipe].empty()) return;
    const auto bytes = take(rest[pipe], all);
    if (!pieces.empty() && pieces.back().pipe == pipe)
      pieces.back().bytes = {pieces.back().bytes.data(), pieces.back().bytes.size() + bytes.size()};
    else
      pieces.push_back({pipe, bytes});
  };
  if (std::exchange(times_only_, 0) >= kBulk) {
    add_piece(last_only_, true);
    if (inotify_) watch(last_only_);
  }
  auto write = writes_.begin();
  for (; write != writes_.end() && !(rest[kOut].empty() && rest[kErr].empty()); ++write)
    add_piece(*write, --left[*write] == 0 && has_more_lines[*write]);
  writes_.erase(writes_.begin(), write);
  add_piece(kOut, true);
  add_piece(kErr, true);
  return pieces;
}

}  // namespace hvdrun
