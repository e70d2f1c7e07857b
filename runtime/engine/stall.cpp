#include "engine/stall.hpp"

#include "common/clock.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <utility>

namespace libhvd {
namespace {

constexpr std::size_t kMostNamed = 5;  // collectives, for each set of missing ranks

bool lasts(std::uint64_t waited_ns, std::chrono::milliseconds limit) {
  return std::chrono::nanoseconds(waited_ns) >= limit;
}

}  // namespace

std::string describe_stall(const std::vector<Waiting>& waiting, std::uint64_t waited_ns) {
  std::string text;
  for (std::size_t first = 0; first < waiting.size();) {
    std::size_t end = first;
    while (end < waiting.size() && waiting[end].missing == waiting[first].missing) ++end;
    text += text.empty() ? "" : "; ";
    const std::size_t named = std::min(end - first, kMostNamed);
    for (std::size_t i = first; i < first + named; ++i)
      text += (i > first ? ", " : "") + waiting[i].what;
    if (end - first > named) text += " and " + std::to_string(end - first - named) + " more";
    text += end - first == 1 ? " has waited " : " have waited ";
    text += std::to_string(waited_ns / 1'000'000'000) + " s for " +
            describe_ranks(waiting[first].missing);
    first = end;
  }
  return text;
}

std::vector<int> numbers_of(const Communicator& communicator, const std::vector<int>& ranks) {
  std::vector<int> numbers;
  for (const int rank : ranks) numbers.push_back(communicator.number(rank));
  return numbers;
}

StallWatch::StallWatch(const EngineSettings& settings, StallListener listener)
    : settings_(settings), listener_(std::move(listener)) {
  if (!listener_.report) {
    listener_.report = [](const std::string& text) {
      std::fprintf(stderr, "hvd: %s\n", text.c_str());
    };
  }
}

bool StallWatch::shows(std::uint64_t waited_ns) const {
  constexpr std::chrono::milliseconds kShownAfter{1000};
  return settings_.stall_check && settings_.stall_warning.count() > 0 &&
         listener_.show != nullptr &&
         lasts(waited_ns, std::min(kShownAfter, settings_.stall_warning / 2));
}

bool StallWatch::due(std::uint64_t waited_ns) const {
  return settings_.stall_check && settings_.stall_warning.count() > 0 &&
         lasts(waited_ns, settings_.stall_warning);
}

bool StallWatch::over(std::uint64_t waited_ns) const {
  return settings_.stall_check && settings_.stall_error.count() > 0 &&
         lasts(waited_ns, std::max(settings_.stall_error, settings_.stall_warning));
}

void StallWatch::report(const std::vector<Waiting>& waiting, std::uint64_t waited_ns) const {
  listener_.report(describe_stall(waiting, waited_ns));
}

void DeviceStallWatch::look(const std::optional<DeviceWait>& oldest) {
  if (const std::uint64_t made = oldest ? oldest->since_ns : 0; made != call_ns_) {
    if (std::exchange(shown_, false)) watch_.listener().clear(true);
    call_ns_ = made;
    reached_ns_ = 0;
    reported_ = false;
  }
  if (!oldest || communicator_.size() == 1) return;
  const std::uint64_t now = monotonic_ns();
  if (!oldest->reached) {
    const std::uint64_t since_call = now - std::min(now, call_ns_);
    if (watch_.due(since_call) && !std::exchange(reported_, true)) report(*oldest, since_call);
    return;
  }
  if (reached_ns_ == 0) reached_ns_ = now;
  const std::uint64_t waited = now - reached_ns_;
  if (!shown_ && watch_.shows(waited)) show(*oldest);
  if (watch_.over(waited)) communicator_.abort_job(FailureKind::waited, communicator_.rank());
}

// The GPU may only have much to do before the call. So nothing is said of others that wait.
void DeviceStallWatch::report(const DeviceWait& wait, std::uint64_t since_call_ns) const {
  const std::string name = wait.name.empty() ? "" : ' ' + quote(wait.name);
  watch_.listener().report("the GPU of rank " +
                           std::to_string(communicator_.number(communicator_.rank())) +
                           " has not come to " + wait.kind + name + ", " +
                           std::to_string(since_call_ns / 1'000'000'000) + " s after the call");
}

// Which ranks' GPUs have not come is not known here: all others may be missing.
void DeviceStallWatch::show(const DeviceWait& wait) {
  std::vector<int> others;
  for (int rank = 0; rank < communicator_.size(); ++rank) {
    if (rank != communicator_.rank()) others.push_back(communicator_.number(rank));
  }
  watch_.listener().show(wait.kind, wait.name, reached_ns_, fold_ranks(others));
  shown_ = true;
}

}  // namespace libhvd
