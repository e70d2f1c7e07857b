#include "trace/clock_sync.hpp"

#include "common/clock.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace libhvd {
namespace {

// Only the quickest steps matter; with more steps some are quick.
constexpr std::size_t kSteps = 32;

struct Reading {
  std::int64_t host;
  std::array<ClockStep, kSteps> steps;
};

std::int64_t now_ns() {
  return static_cast<std::int64_t>(monotonic_ns());
}

}  // namespace

Result<ClockReading> compare_clocks(Communicator& communicator, int host,
                                    const CallOptions& options) {
  Reading own{.host = host, .steps = {}};
  if (!communicator.on_one_host()) {
    for (ClockStep& step : own.steps) {
      step.before_ns = now_ns();
      HVD_CHECK(communicator.barrier(options));
      step.after_ns = now_ns();
    }
  }
  std::vector<Reading> readings(static_cast<std::size_t>(communicator.size()));
  HVD_CHECK(communicator.allgather(&own, 1, sizeof own, HVD_UINT8, readings.data(), readings.size(),
                                   nullptr, options));
  std::vector<RankClock> clocks;
  for (const Reading& reading : readings)
    clocks.push_back({reading.host, {reading.steps.begin(), reading.steps.end()}});
  const auto offsets = estimate_offsets(clocks);
  ClockReading result;
  result.own = {now_ns(), offsets[static_cast<std::size_t>(communicator.rank())]};
  for (const ClockOffset& offset : offsets)
    result.largest_error_ns = std::max(result.largest_error_ns, offset.error_ns);
  return result;
}

}  // namespace libhvd
