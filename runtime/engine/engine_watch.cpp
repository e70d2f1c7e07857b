// Engine's watch over what waits for other ranks.
#include "base/clock.hpp"
#include "base/text.hpp"
#include "engine/engine.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace libhvd {
namespace {

constexpr std::uint64_t kLookNs = 20'000'000;

}  // namespace

// Called over and over while the engine waits.
void Engine::look_for_stall() {
  const std::uint64_t now = monotonic_ns();
  if (now < next_look_ns_) return;
  next_look_ns_ = now + kLookNs;
  std::vector<Waiting> waiting;
  std::uint64_t longest = 0;
  std::optional<int> blamed;
  Entry oldest;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [hash, entry] : in_flight_) {
      if (!oldest || entry->since_ns < oldest->since_ns) oldest = entry;
      const std::uint64_t waited = now - std::min(now, entry->since_ns);
      if (!watch_.due(waited) && !watch_.over(waited)) continue;
      const std::vector<int> missing = missing_for(*entry);
      if (missing.empty() || !speaks_for(*entry, missing)) continue;
      if (watch_.over(waited)) blamed = missing.front();
      if (!watch_.due(waited) || std::exchange(entry->said, true)) continue;
      longest = std::max(longest, waited);
      waiting.push_back({title_of(entry->request), numbers_of(*communicator_, missing)});
    }
  }
  std::sort(waiting.begin(), waiting.end(), [](const Waiting& a, const Waiting& b) {
    return std::tie(a.missing, a.what) < std::tie(b.missing, b.what);
  });
  if (!waiting.empty()) watch_.say(waiting, longest);
  if (oldest && watch_.shows(now - std::min(now, oldest->since_ns))) show(oldest);
  if (blamed) communicator_->condemn(FailureKind::stalled, *blamed);
}

void Engine::show(const Entry& entry) {
  const std::vector<int> missing = missing_for(*entry);
  if (missing.empty() || (shown_ != nullptr && shown_ != entry)) return;
  shown_ = entry;
  watch_.listener().show(entry->request.kind, entry->request.name, entry->since_ns,
                         fold_ranks(numbers_of(*communicator_, missing)));
}

void Engine::hide(bool completed) {
  shown_.reset();
  watch_.listener().clear(completed);
}

// Those that have not submitted it; what all have submitted waits for nobody, unless it is being
// carried out. What the others do not know of yet waits for those that have not come to the round.
std::vector<int> Engine::missing_for(const Pending& entry) const {
  if (entry.told && !entry.runs) return negotiation_.missing(entry.hash);
  return meeting_ ? communicator_->absent() : std::vector<int>();
}

// One of those that wait says so for all: the first that has submitted it. Of what the others do
// not know of yet, the first of those that have come to the round and not joined.
bool Engine::speaks_for(const Pending& entry, const std::vector<int>& missing) const {
  if (entry.told && !entry.runs)
    return negotiation_.first_to_tell(entry.hash) == communicator_->rank();
  std::optional<int> first;
  for (int rank = 0; rank < communicator_->size(); ++rank) {
    if (std::find(missing.begin(), missing.end(), rank) != missing.end()) continue;
    if (!negotiation_.has_joined(rank)) return rank == communicator_->rank();
    if (!first) first = rank;
  }
  return first == communicator_->rank();  // all of them have joined
}

}  // namespace libhvd
