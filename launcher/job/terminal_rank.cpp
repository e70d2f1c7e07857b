#include "job/terminal_rank.hpp"

#include "base/terminal.hpp"
#include "output/sink.hpp"

#include <chrono>
#include <cstddef>

#include <unistd.h>

namespace hvdrun {
namespace {

constexpr char kInterrupt = '\x03';
constexpr std::size_t kTimes = 3;
constexpr std::chrono::seconds kWithin{1};

bool has_terminal(int fd) {
  return ::isatty(fd) == 1;
}

bool suits_the_only_rank(const JobSpec& spec, const Plan& plan) {
  if (spec.ranks != 1 && !(is_final(plan.placement) && plan.placement.size == 1)) return false;
  const OutputSpec& output = spec.output;
  const bool is_plain = (output.label.empty() || output.label == "none") && !output.timestamps &&
                        output.directory.empty() && !output.only_ranks;
  return is_plain && spec.input.to == InputSpec::To::rank && spec.input.rank == 0 &&
         has_terminal(STDIN_FILENO) && same_place(STDIN_FILENO, STDOUT_FILENO) &&
         same_place(STDIN_FILENO, STDERR_FILENO) && is_in_foreground(STDIN_FILENO);
}

}  // namespace

Result<void> settle_terminal(JobSpec& spec, const Plan& plan) {
  if (!spec.output.terminal_rank) {
    if (suits_the_only_rank(spec, plan)) spec.output.terminal_rank = 0;
    return {};
  }
  if (!has_terminal(STDIN_FILENO))
    return fail("--tty needs a terminal, and hvdrun's standard input is none", kExitUsage);
  if (!has_terminal(STDOUT_FILENO))
    return fail("--tty needs a terminal, and hvdrun's standard output is none", kExitUsage);
  return {};
}

bool InterruptKeys::take(std::string_view keys, EventLoop::Clock::time_point now) {
  bool stops = false;
  for (const char key : keys) {
    if (key != kInterrupt) {
      times_.clear();
      continue;
    }
    any_ = true;
    std::erase_if(times_, [now](const auto time) { return now - time > kWithin; });
    times_.push_back(now);
    stops = stops || times_.size() >= kTimes;
  }
  return stops;
}

}  // namespace hvdrun
