#include "agent/stream_order.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include <poll.h>
#include <sys/ioctl.h>

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

StreamOrder::StreamOrder(PipeWrites& signals, int out, int err)
    : signals_(&signals), pipes_{out, err} {
  watch(kOut);
  watch(kErr);
}

StreamOrder::~StreamOrder() {
  unwatch(kOut);
  unwatch(kErr);
}

bool StreamOrder::has_ended(Pipe pipe) const {
  pollfd looked{pipes_[pipe], 0, 0};
  return ::poll(&looked, 1, 0) == 1 && (looked.revents & POLLHUP) != 0;
}

void StreamOrder::watch(Pipe pipe) {
  if (signals_ == nullptr || watched_[pipe]) return;
  ended_[pipe] = has_ended(pipe);  // that was not reported
  signals_->watch(pipes_[pipe], *this);
  watched_[pipe] = true;
}

void StreamOrder::unwatch(Pipe pipe) {
  if (std::exchange(watched_[pipe], false)) signals_->unwatch(pipes_[pipe]);
}

void StreamOrder::only(Pipe pipe) {
  writes_.clear();
  if (pipe != last_only_) {
    watch(last_only_);
    last_only_ = pipe;
    times_only_ = 0;
  }
  times_only_ = std::min(times_only_ + 1, kBulk);
  if (times_only_ == kBulk) unwatch(pipe);
}

void StreamOrder::update() {
  if (signals_ != nullptr) signals_->update();
}

void StreamOrder::leave_out_ends() {
  for (const Pipe pipe : {kOut, kErr}) {
    if (!watched_[pipe] || ended_[pipe] || !has_ended(pipe)) continue;
    ended_[pipe] = true;
    // The end is seen a moment before it is reported. FIONREAD waits for the pipe's lock, under
    // which both happen.
    int bytes = 0;
    ::ioctl(pipes_[pipe], FIONREAD, &bytes);
    signals_->update();
    const auto last = std::find_if(writes_.rbegin(), writes_.rend(),
                                   [pipe](const Writes& each) { return each.pipe == pipe; });
    if (last != writes_.rend() && --last->times == 0) writes_.erase(std::next(last).base());
  }
}

void StreamOrder::add(Pipe pipe) {
  if (writes_.empty() || writes_.back().pipe != pipe) writes_.push_back({pipe, 0});
  ++writes_.back().times;
  if (writes_.size() > kMostWrites) writes_.clear();
}

std::vector<StreamOrder::Piece> StreamOrder::arrange(std::string_view out, std::string_view err) {
  std::array<std::string_view, 2> rest{out, err};
  std::array<std::size_t, 2> left{};  // writes to each pipe that are not looked at yet
  for (const auto& each : writes_) ++left[each.pipe];
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
    watch(last_only_);
  }
  auto write = writes_.begin();
  for (; write != writes_.end() && !(rest[kOut].empty() && rest[kErr].empty()); ++write)
    add_piece(write->pipe, --left[write->pipe] == 0 && has_more_lines[write->pipe]);
  writes_.erase(writes_.begin(), write);
  add_piece(kOut, true);
  add_piece(kErr, true);
  return pieces;
}

}  // namespace hvdrun
