#include "gpu/nccl.hpp"

#include "common/clock.hpp"
#include "common/shared_library.hpp"
#include "common/system.hpp"
#include "common/variables.h"
#include "gpu/cuda_library.hpp"

#include <string>
#include <system_error>
#include <utility>

namespace libhvd {

Result<NcclLibrary> NcclLibrary::load(const Environment& environment) {
  constexpr const char* kSonames[] = {"libnccl.so.2"};
  HVD_TRY(const SharedLibrary library, open_library(environment, HVD_ENV_NCCL_LIBRARY, kSonames));
  NcclLibrary nccl;
#define HVD_NCCL_LOAD(name, parameters) \
  if (!library.find(#name, nccl.name)) return lacks_function(#name);
  HVD_NCCL_FUNCTIONS(HVD_NCCL_LOAD)
  HVD_NCCL_LOAD(ncclGetErrorString, )
  HVD_NCCL_LOAD(ncclGetLastError, )
#undef HVD_NCCL_LOAD
  const NcclStatus status = nccl.ncclGetVersion(&nccl.version);
  if (status != NcclStatus::success) return nccl.describe(status, "ncclGetVersion", nullptr);
  if (nccl.version < kNcclLeastVersion) {
    return fail(HVD_ERROR_UNSUPPORTED, "NCCL is " + nccl_version_text(nccl.version) +
                                           "; it must be " + nccl_version_text(kNcclLeastVersion) +
                                           " or later");
  }
  return nccl;
}

Error NcclLibrary::describe(NcclStatus status, const char* what, NcclComm comm) const {
  std::string text = std::string(what) + ": " + ncclGetErrorString(status);
  const char* const details = ncclGetLastError(comm);
  if (details != nullptr && *details != '\0') text += std::string(": ") + details;
  return fail(status == NcclStatus::remote_error ? HVD_ERROR_PEER : HVD_ERROR_SYSTEM, text);
}

std::string nccl_version_text(int version) {
  return std::to_string(version / 10000) + '.' + std::to_string(version / 100 % 100) + '.' +
         std::to_string(version % 100);
}

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{20};
constexpr milliseconds kPoll{1};
constexpr int kEagerPolls = 1'000;  // what NCCL does for one call mostly takes microseconds
// Connections between GPUs are made with the first call that needs them.
constexpr milliseconds kCallPatience{120'000};
constexpr milliseconds kFarewell{2'000};

}  // namespace

Result<std::unique_ptr<NcclCommunicator>> NcclCommunicator::start(Setting setting) {
  std::unique_ptr<NcclCommunicator> communicator(new NcclCommunicator(std::move(setting)));
  HVD_CHECK(communicator->join());
  const SignalsBlocked blocked;
  try {
    communicator->watcher_ = std::thread([raw = communicator.get()] { raw->watch(); });
  } catch (const std::system_error& error) {
    return fail(HVD_ERROR_SYSTEM,
                std::string("cannot start the thread that watches NCCL: ") + error.what());
  }
  return communicator;
}

Result<void> NcclCommunicator::join() {
  std::unique_lock lock(mutex_);
  NcclConfig config;
  // Who is alone waits for nobody, and spares NCCL a thread for each call.
  config.blocking = setting_.size == 1 ? 1 : 0;
  const NcclStatus status =
      nccl().ncclCommInitRankConfig(&comm_, setting_.size, setting_.id, setting_.rank, &config);
  return settle(lock, "ncclCommInitRankConfig", status, setting_.timeout);
}

// Waits until NCCL has done what it goes on with in the background.
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

// The caller holds the mutex.
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
  // Calls return before they are carried out on such a communicator.
  if (status == NcclStatus::success) status = NcclStatus::in_progress;
  Result<void> outcome = settle(lock, "NCCL", status, kCallPatience);
  if (!outcome.ok()) setting_.tell_peers();
  return outcome;
}

Error NcclCommunicator::give_up_for(const Error& error) {
  const std::lock_guard lock(mutex_);
  Error first = give_up(error).error();
  setting_.tell_peers();
  return first;
}

std::optional<Error> NcclCommunicator::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void NcclCommunicator::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_ && !failure_) {
    stopped_.wait_for(lock, kLook);
    if (stop_ || failure_) return;
    if (auto found = setting_.find_failure()) {
      (void)give_up(*found);
      return;
    }
    NcclStatus now = NcclStatus::success;
    const NcclStatus asked = nccl().ncclCommGetAsyncError(comm_, &now);
    if (asked != NcclStatus::success) now = asked;
    if (now == NcclStatus::success || now == NcclStatus::in_progress) continue;
    (void)give_up(nccl().describe(now, "NCCL", comm_));
    setting_.tell_peers();
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
                   status == NcclStatus::success ? NcclStatus::in_progress : status, kFarewell);
    }
    if (comm_ != nullptr) nccl().ncclCommDestroy(std::exchange(comm_, nullptr));
  }
  if (watcher_.joinable()) watcher_.join();
}

}  // namespace libhvd
