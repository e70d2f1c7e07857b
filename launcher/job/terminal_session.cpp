#include "job/terminal_session.hpp"

#include <chrono>
#include <csignal>
#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::chrono::milliseconds kNow{0};

}  // namespace

TerminalSession::TerminalSession(std::optional<int> rank, UserTerminal* terminal, Output& output,
                                 SendWindow send_window)
    : rank_(rank),
      terminal_(rank ? terminal : nullptr),
      output_(output),
      send_window_(std::move(send_window)) {}

std::optional<TerminalSettings> TerminalSession::settings() const {
  return terminal_ != nullptr ? terminal_->settings() : std::nullopt;
}

void TerminalSession::begin(int size) {
  if (terminal_ == nullptr) return;
  if (size > 1)
    output_.note(fmt::format(
        "rank {} has the terminal; Ctrl-C three times within a second stops the job", *rank_));
  open_ = true;
  resume();
}

void TerminalSession::resume() {
  if (!open_) return;
  output_.flush(kNow);  // lines that end with "\n" only
  if (!terminal_->make_raw()) return;
  output_.set_raw(true);
  resize();
}

void TerminalSession::pause() {
  if (!open_) return;
  output_.flush(kNow);
  terminal_->restore();
  output_.set_raw(false);
}

void TerminalSession::end() {
  pause();
  open_ = false;
}

void TerminalSession::resize() {
  if (!open_) return;
  if (const auto settings = terminal_->settings())
    send_window_({static_cast<std::uint32_t>(*rank_), settings->size});
}

void TerminalSession::take_keys(std::string_view keys, EventLoop::Clock::time_point now) {
  if (interrupts_.take(keys, now)) ::kill(::getpid(), SIGINT);
}

bool TerminalSession::was_interrupted(const RankReport& rank) const {
  return is_of(rank.placement.rank) && rank.signal == SIGINT && interrupts_.any();
}

}  // namespace hvdrun
