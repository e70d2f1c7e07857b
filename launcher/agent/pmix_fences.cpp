#include "agent/pmix_fences.hpp"

#include "protocol/pmix_messages.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace hvdrun {

void PmixFences::set_job(const PmixJob& job) {
  own_host_ = static_cast<std::uint32_t>(job.host_index);
  host_count_ = job.hosts.size();
  host_of_ = job.host_of_ranks();
}

// Returns the hosts of the ranks, ascending; empty if the job lacks one of the ranks.
std::vector<std::uint32_t> PmixFences::hosts_of(const std::vector<std::uint32_t>& ranks) const {
  std::vector<std::uint32_t> hosts;
  if (ranks.empty()) {
    hosts.resize(host_count_);
    std::iota(hosts.begin(), hosts.end(), 0u);
    return hosts;
  }
  for (const auto rank : ranks) {
    if (rank >= host_of_.size()) return {};
    hosts.push_back(host_of_[rank]);
  }
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  return hosts;
}

void PmixFences::join(FenceCall call) {
  auto hosts = hosts_of(call.ranks);
  if (hosts.empty()) return call.answer(kPmixNotFound, {});
  if (hosts == std::vector{own_host_}) return call.answer(call.status, call.data);
  const auto number = next_number_[pack_fence_key(0, call.purpose, call.ranks)]++;
  const auto key = pack_fence_key(number, call.purpose, call.ranks);
  auto timer = call.timeout ? limit(*call.timeout, key) : nullptr;
  open_.emplace(key, Open{std::move(call.answer), std::move(timer), loop_.now()});
  send_(FrameType::fence, kToLauncher, pack_fence({key, std::move(hosts), call.status, call.data}));
}

// Starts the time limit of a fence, which libpmix leaves to us once all local ranks have entered.
// The launcher ends the fence, so that all hosts get the same result.
std::unique_ptr<Timer> PmixFences::limit(std::chrono::seconds timeout, const std::string& key) {
  auto timer = std::make_unique<Timer>(
      loop_, [this, key] { send_(FrameType::fence_expired, kToLauncher, key); });
  timer->start(timeout);
  return timer;
}

std::chrono::milliseconds PmixFences::longest_wait() const {
  auto earliest = loop_.now();
  for (const auto& [key, open] : open_) earliest = std::min(earliest, open.begun);
  return std::chrono::duration_cast<std::chrono::milliseconds>(loop_.now() - earliest);
}

Result<void> PmixFences::on_result(std::string_view payload) {
  HVD_TRY(const auto result, parse_fence_result(payload));
  const auto at = open_.find(result.key);
  if (at == open_.end())
    return fail("the launcher sent the result of a PMIx fence that no rank of this host waits for");
  const auto open = std::move(at->second);
  open_.erase(at);
  open.answer(result.status, result.data);
  return {};
}

}  // namespace hvdrun
