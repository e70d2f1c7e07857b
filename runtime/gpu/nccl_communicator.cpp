#include "gpu/nccl_communicator.hpp"

#include "base/thread.hpp"
#include "common/clock.hpp"

#include <string>
#include <utility>

namespace libhvd {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{20};
constexpr milliseconds kPoll{1};
constexpr int kEagerPolls = 1'000;  // most calls take NCCL some microseconds
// This is long, because NCCL connects GPUs in the first call that needs the connection.
constexpr milliseconds kCallTimeout{120'000};
constexpr milliseconds kFinalizeTimeout{2'000};

}  // namespace

Result<std::unique_ptr<NcclCommunicator>> NcclCommunicator::start(Setting setting) {
  std::unique_ptr<NcclCommunicator> communicator(new NcclCommunicator(std::move(setting)));
  HVD_CHECK(communicator->join());
  HVD_TRY(communicator->watcher_,
          start_thread("watches NCCL", [raw = communicator.get()] { raw->watch(); }));
  return communicator;
}

Result<void> NcclCommunicator::join() {
  std::unique_lock lock(mutex_);
  NcclConfig config;
  // A blocking communicator saves NCCL a thread for each call. One rank alone waits for no other.
  config.blocking = setting_.size == 1 ? 1 : 0;
  const NcclStatus status =
      nccl().ncclCommInitRankConfig(&comm_, setting_.size, setting_.id, setting_.rank, &config);
  return settle(lock, "ncclCommInitRankConfig", status, setting_.timeout);
}

// Waits until NCCL has done in the background what a call has begun. Error: the call has failed.
Result<void> NcclCommunicator::settle(std::unique_lock<std::mutex>& lock, const char* what,
                                      NcclStatus status, milliseconds timeout) {
  const Deadline deadline(timeout);
  for (int polls = 0; status == NcclStatus::in_progress && comm_ != nullptr; ++polls) {
    if (polls > 0 && polls <= kEagerPolls) std::this_thread::yield();
    if (polls > kEagerPolls) {
      stopped_.wait_for(lock, kPoll);
      if (auto found = setting_.find_failure()) return give_up(*found);
      if (deadline.over()) {
        return give_up(fail(HVD_ERROR_TIMEOUT, std::string(what) + ": not all ranks have come"
                                                                   " within the time"));
      }
    }
    if (comm_ == nullptr) break;
    NcclStatus now = NcclStatus::success;
    status = nccl().ncclCommGetAsyncError(comm_, &now);
    if (status == NcclStatus::success) status = now;
  }
  if (failure_) return *failure_;
  if (status == NcclStatus::success) return {};
  return give_up(nccl().describe(status, what, comm_));
}

// Aborts the communicator, unless it has failed before. Returns its first error. The caller must
// hold the mutex.
Result<void> NcclCommunicator::give_up(const Error& error) {
  if (failure_) return *failure_;
  failure_ = error;
  if (comm_ != nullptr) nccl().ncclCommAbort(std::exchange(comm_, nullptr));
  return error;
}

Result<void> NcclCommunicator::enqueue(const std::function<NcclStatus(NcclComm)>& body) {
  std::unique_lock lock(mutex_);
  if (failure_) return *failure_;
  NcclStatus status = body(comm_);
  // On a communicator that does not block, calls return before NCCL has done them.
  if (status == NcclStatus::success) status = NcclStatus::in_progress;
  Result<void> outcome = settle(lock, "NCCL", status, kCallTimeout);
  if (!outcome.ok()) setting_.notify_peers();
  return outcome;
}

Error NcclCommunicator::give_up_for(const Error& error) {
  const std::lock_guard lock(mutex_);
  Error first = give_up(error).error();
  setting_.notify_peers();
  return first;
}

std::optional<Error> NcclCommunicator::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::optional<Error> NcclCommunicator::loss() const {
  const std::lock_guard lock(mutex_);
  return lost_work_ ? failure_ : std::nullopt;
}

void NcclCommunicator::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_ && !failure_) {
    stopped_.wait_for(lock, kLook);
    if (stop_ || failure_) return;
    lock.unlock();
    const Result<bool> looked = setting_.look_at_gpu();
    lock.lock();
    if (stop_ || failure_) return;
    lost_work_ = !looked.ok() || *looked;  // if it ends now
    if (auto found = setting_.find_failure()) {
      (void)give_up(*found);
      return;
    }
    if (!looked.ok()) {
      (void)give_up(looked.error());
      setting_.notify_peers();
      return;
    }
    NcclStatus now = NcclStatus::success;
    const NcclStatus asked = nccl().ncclCommGetAsyncError(comm_, &now);
    if (asked != NcclStatus::success) now = asked;
    if (now == NcclStatus::success || now == NcclStatus::in_progress) continue;
    (void)give_up(nccl().describe(now, "NCCL", comm_));
    setting_.notify_peers();
  }
}

NcclCommunicator::~NcclCommunicator() {
  {
    std::unique_lock lock(mutex_);
    stop_ = true;
    stopped_.notify_all();
    if (comm_ != nullptr) {
      const NcclStatus status = nccl().ncclCommFinalize(comm_);
      (void)settle(lock, "ncclCommFinalize",
                   status == NcclStatus::success ? NcclStatus::in_progress : status,
                   kFinalizeTimeout);
    }
    if (comm_ != nullptr) nccl().ncclCommDestroy(std::exchange(comm_, nullptr));
  }
  if (watcher_.joinable()) watcher_.join();
}

}  // namespace libhvd
