#include "agent/final_kill.hpp"

#include <chrono>
#include <utility>

#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::chrono::milliseconds kAgain{20};
constexpr int kMostRounds = 500;

}  // namespace

FinalKill::FinalKill(const EventLoop& loop, Events events)
    : events_(std::move(events)), again_(loop, [this] { strike(); }) {}

void FinalKill::strike() {
  const auto find = [] { return descendants_of(::getpid(), all_processes()); };
  if (++rounds_ > kMostRounds) return events_.on_given_up(find());
  stop_and_kill(find);
  again_.start(kAgain);
  events_.on_round();
}

}  // namespace hvdrun
