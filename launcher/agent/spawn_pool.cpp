#include "agent/spawn_pool.hpp"

#include <algorithm>
#include <system_error>

namespace hvdrun {
namespace {

// More threads than cores: each waits most of its time for its child's exec.
constexpr std::size_t kThreads = 4;

}  // namespace

SpawnPool::~SpawnPool() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
}

std::vector<Result<pid_t>> SpawnPool::spawn_all(const std::vector<SpawnRequest>& requests) {
  std::vector<Result<pid_t>> results(requests.size(), Result<pid_t>(0));
  Batch batch{&requests, &results};
  const auto wanted = std::min(kThreads, requests.size());
  try {
    while (threads_.size() + 1 < wanted) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // A limit on processes counts threads, too. The caller's own is enough.
  }
  {
    const std::lock_guard lock(mutex_);
    batch_ = &batch;
    busy_ = threads_.size();
    ++generation_;
  }
  changed_.notify_all();
  take_all(batch);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return busy_ == 0; });
  batch_ = nullptr;
  return results;
}

void SpawnPool::work() {
  std::size_t done = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return leaving_ || (batch_ != nullptr && generation_ != done); });
    if (leaving_) return;
    done = generation_;
    Batch& batch = *batch_;
    lock.unlock();
    take_all(batch);
    lock.lock();
    if (--busy_ == 0) changed_.notify_all();
  }
}

void SpawnPool::take_all(Batch& batch) {
  for (auto at = batch.next++; at < batch.requests->size(); at = batch.next++)
    (*batch.results)[at] = spawn((*batch.requests)[at]);
}

}  // namespace hvdrun
