#include "trace/clock_sync.hpp"

#include "common/clock.hpp"
#include "common/system.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

namespace libhvd {
namespace {

// Interrupts the communicator unless it is destroyed in time.
class Alarm {
 public:
  Alarm(Communicator& communicator, std::chrono::milliseconds timeout) {
    const SignalsBlocked blocked;
    thread_ = std::thread([this, &communicator, timeout] {
      std::unique_lock lock(mutex_);
      rang_ = !over_.wait_for(lock, timeout, [this] { return called_off_; });
      if (rang_) communicator.interrupt();
    });
  }
  ~Alarm() { call_off(); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  // Whether it has rung.
  bool call_off() {
    {
      const std::lock_guard lock(mutex_);
      called_off_ = true;
    }
    over_.notify_one();
    if (thread_.joinable()) thread_.join();
    return rang_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool called_off_ = false;
  bool rang_ = false;
  std::thread thread_;
};

}  // namespace

Result<void> timed_barrier(Communicator& communicator, std::chrono::milliseconds timeout) {
  try {
    Alarm alarm(communicator, timeout);
    Result<void> met = communicator.barrier({.name = "timeline"});
    if (!alarm.call_off()) return met;
  } catch (const std::system_error& error) {
    return fail(HVD_ERROR_SYSTEM, std::string("cannot start a thread: ") + error.what());
  }
  return fail(HVD_ERROR_TIMEOUT,
              "not all ranks have come within " + std::to_string(timeout.count()) + " ms");
}

namespace {

// Clocks that are disciplined differ by far less; what is more comes from estimates of two moments
// close to each other, and would tear the timeline.
constexpr double kLargestDrift = 1e-3;

// Of all ranks of a host in one step. The earliest `after` bounds best, and the latest `before`.
std::vector<ClockStep> steps_of_host(std::span<const RankClock> clocks, std::int64_t host) {
  std::vector<ClockStep> tightest;
  for (const RankClock& clock : clocks) {
    if (clock.host != host) continue;
    if (tightest.empty()) tightest = clock.steps;
    for (std::size_t i = 0; i < tightest.size(); ++i) {
      tightest[i].before_ns = std::max(tightest[i].before_ns, clock.steps[i].before_ns);
      tightest[i].after_ns = std::min(tightest[i].after_ns, clock.steps[i].after_ns);
    }
  }
  return tightest;
}

ClockOffset estimate_offset(std::span<const ClockStep> reference, std::span<const ClockStep> own) {
  if (own.empty()) return {};
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < own.size(); ++i) {
    low = std::max(low, reference[i].before_ns - own[i].after_ns);
    high = std::min(high, reference[i].after_ns - own[i].before_ns);
  }
  // Drift between the first step and the last may turn them round, by as much as it is.
  return {low + (high - low) / 2, std::abs(high - low) / 2};
}

}  // namespace

std::vector<ClockOffset> estimate_offsets(std::span<const RankClock> clocks) {
  if (clocks.empty()) return {};
  const std::int64_t first = clocks.front().host;
  const auto reference = steps_of_host(clocks, first);
  std::map<std::int64_t, ClockOffset> hosts{{first, {}}};
  std::vector<ClockOffset> offsets;
  for (const RankClock& clock : clocks) {
    if (!hosts.contains(clock.host))
      hosts[clock.host] = estimate_offset(reference, steps_of_host(clocks, clock.host));
    offsets.push_back(hosts[clock.host]);
  }
  return offsets;
}

std::int64_t ClockMap::map(std::uint64_t own_ns) const {
  const auto own = static_cast<std::int64_t>(own_ns);
  const std::int64_t between = second_.at_ns - first_.at_ns;
  double drift = 0;
  if (between > 0) {
    drift =
        static_cast<double>(second_.offset.ns - first_.offset.ns) / static_cast<double>(between);
    drift = std::clamp(drift, -kLargestDrift, kLargestDrift);
  }
  return own + first_.offset.ns + std::llround(drift * static_cast<double>(own - first_.at_ns));
}

std::int64_t ClockMap::error_ns() const {
  return std::max(first_.offset.error_ns, second_.offset.error_ns);
}

namespace {

// Each step is another chance of a quick one.
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
