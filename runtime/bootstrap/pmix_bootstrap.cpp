// The bootstrap of a job that a PMIx launcher has started: hvdrun, mpirun (Open MPI), srun
// --mpi=pmix. exchange() puts the blob under a new key, waits for all ranks in a fence, and gets
// the others'.
#include "base/process_environment.hpp"
#include "bootstrap/bootstrap.hpp"
#include "bootstrap/chosen_ranks.hpp"
#include "bootstrap/pmix_client_library.hpp"
#include "common/bundled_library.hpp"
#include "common/sha256.hpp"
#include "common/system.hpp"
#include "common/text.hpp"
#include "common/variables.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace libhvd {
namespace {

// Returns a short text for a list of ranks, as part of a key.
std::string short_name(const ChosenRanks& chosen) {
  constexpr std::size_t kBytes = 8;
  if (chosen.empty()) return "all";
  const std::string text = fold_ranks(chosen);
  const Digest digest = sha256({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  return to_hex(std::span(digest).first(kBytes));
}

// The outcome of a fence, set by PMIx's thread. Shared, because it may arrive after fence() has
// given up.
struct FenceState {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<pmix_status_t> status;
};

// How long to look for what a rank has put, after not all ranks have come.
constexpr std::chrono::seconds kLook{1};

// Returns the time until then in PMIx's unit, rounded up: 0 would be no limit.
int seconds_until(std::chrono::steady_clock::time_point end) {
  const auto rest = end - std::chrono::steady_clock::now();
  return std::max(0, static_cast<int>(rest / std::chrono::seconds(1))) + 1;
}

// Called on PMIx's thread. Owns `context`.
void on_fence_done(pmix_status_t status, void* context) {
  const std::unique_ptr<std::shared_ptr<FenceState>> state(
      static_cast<std::shared_ptr<FenceState>*>(context));
  const std::lock_guard lock((*state)->mutex);
  (*state)->status = status;
  (*state)->changed.notify_one();
}

// One PMIx_Init and its PMIx_Finalize; libpmix counts them. After the last PMIx_Finalize a process
// cannot start again (libpmix 4.2.2: a second PMIx_Init succeeds, but the job's data is gone). So
// one membership lives until the process ends.
class PmixMembership {
 public:
  static Result<std::unique_ptr<PmixMembership>> open(const PmixLibrary& pmix);
  ~PmixMembership() { pmix_.PMIx_Finalize(nullptr, 0); }
  PmixMembership(const PmixMembership&) = delete;
  PmixMembership& operator=(const PmixMembership&) = delete;

  const pmix_proc_t& self() const { return self_; }

 private:
  PmixMembership(const PmixLibrary& pmix, const pmix_proc_t& self) : pmix_(pmix), self_(self) {}

  PmixLibrary pmix_;
  pmix_proc_t self_;
};

Result<std::unique_ptr<PmixMembership>> PmixMembership::open(const PmixLibrary& pmix) {
  pmix_proc_t self;
  std::memset(&self, 0, sizeof self);
  const SignalsBlocked blocked;
  const pmix_status_t status = pmix.PMIx_Init(&self, nullptr, 0);
  if (status != PMIX_SUCCESS) {
    return fail(HVD_ERROR_SYSTEM,
                std::string("PMIX_NAMESPACE is set, but its PMIx server cannot be reached: ") +
                    pmix.PMIx_Error_string(status) +
                    ". Start the program through a launcher, or unset PMIX_NAMESPACE to run it "
                    "alone");
  }
  return std::unique_ptr<PmixMembership>(new PmixMembership(pmix, self));
}

class PmixBootstrap final : public Bootstrap {
 public:
  PmixBootstrap(const PmixLibrary& pmix, std::shared_ptr<PmixMembership> membership,
                const BootstrapOptions& options)
      : pmix_(pmix),
        membership_(std::move(membership)),
        self_(membership_->self()),
        options_(options) {}

  std::shared_ptr<void> lasting() override { return membership_; }
  Result<void> read_job(const Environment& environment);
  const RankInfo& info() const override { return info_; }
  Result<std::vector<std::string>> exchange(const std::string& own) override;

 private:
  Result<void> choose(const RankInfo& in_job);
  std::vector<pmix_proc_t> procs() const;
  int number(int rank) const { return number_among(chosen_, rank); }
  std::optional<int> job_number(pmix_rank_t of, const char* key) const;
  Result<void> put(const std::string& key, const std::string& own) const;
  Result<void> fence(const std::string& key) const;
  std::optional<pmix_status_t> fence_until(std::chrono::steady_clock::time_point end) const;
  Error too_late(const std::string& what, const std::string& key) const;
  Result<std::string> get(int rank, const std::string& key, std::chrono::seconds most) const;
  Error pmix_error(const std::string& what, pmix_status_t status) const;

  PmixLibrary pmix_;
  std::shared_ptr<PmixMembership> membership_;
  pmix_proc_t self_;
  BootstrapOptions options_;
  RankInfo info_;
  ChosenRanks chosen_;
  std::string keys_;  // the prefix of the keys of this start
  std::uint64_t exchanges_ = 0;
};

Error PmixBootstrap::pmix_error(const std::string& what, pmix_status_t status) const {
  hvd_status code = HVD_ERROR_SYSTEM;
  if (status == PMIX_ERR_TIMEOUT) code = HVD_ERROR_TIMEOUT;
  if (status == PMIX_ERR_LOST_CONNECTION || status == PMIX_ERR_PROC_ABORTED) {
    code = HVD_ERROR_PEER;
  }
  return fail(code, what + ": PMIx says " + pmix_.PMIx_Error_string(status));
}

// Returns a number that the launcher has registered; nullopt if there is none. PMIX_OPTIONAL keeps
// PMIx from asking other hosts for it.
std::optional<int> PmixBootstrap::job_number(pmix_rank_t of, const char* key) const {
  pmix_proc_t proc = self_;
  proc.rank = of;
  pmix_info_t optional;
  const bool yes = true;
  pmix_.PMIx_Info_load(&optional, PMIX_OPTIONAL, &yes, PMIX_BOOL);
  pmix_value_t* value = nullptr;
  if (pmix_.PMIx_Get(&proc, key, &optional, 1, &value) != PMIX_SUCCESS) return std::nullopt;
  std::optional<int> number;
  if (value->type == PMIX_UINT32) number = static_cast<int>(value->data.uint32);
  if (value->type == PMIX_UINT16) number = static_cast<int>(value->data.uint16);
  pmix_.PMIx_Value_destruct(value);
  std::free(value);
  return number;
}

Result<void> PmixBootstrap::read_job(const Environment& environment) {
  const auto size = job_number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
  if (!size) return fail(HVD_ERROR_SYSTEM, "the PMIx server does not say how many ranks there are");
  RankInfo in_job;
  in_job.rank = static_cast<int>(self_.rank);
  in_job.size = *size;
  in_job.local_rank = job_number(self_.rank, PMIX_LOCAL_RANK);
  in_job.local_size = job_number(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE);
  in_job.node_rank = job_number(self_.rank, PMIX_NODEID);
  in_job.node_count = job_number(PMIX_RANK_WILDCARD, PMIX_NUM_NODES);
  // hvdrun's own numbers of hosts take precedence over PMIx's.
  HVD_TRY(const auto node_rank, read_integer(environment, HVD_ENV_NODE_RANK, 0, 1 << 20));
  HVD_TRY(const auto node_count, read_integer(environment, HVD_ENV_NODE_COUNT, 1, 1 << 20));
  if (node_rank) in_job.node_rank = static_cast<int>(*node_rank);
  if (node_count) in_job.node_count = static_cast<int>(*node_count);
  return choose(in_job);
}

// Sets the ranks that start, and a prefix of keys that no earlier start has used: PMIx keeps what
// was put.
Result<void> PmixBootstrap::choose(const RankInfo& in_job) {
  HVD_TRY(chosen_, choose_ranks(options_.ranks, in_job));
  info_ = info_among(chosen_, in_job);
  keys_ = "hvd." + short_name(chosen_) + "." + std::to_string(options_.starts->next(chosen_)) + ".";
  return {};
}

// Returns the ranks that start together, in ascending order, because PMIx identifies a fence by
// this list.
std::vector<pmix_proc_t> PmixBootstrap::procs() const {
  ChosenRanks ranks = chosen_;
  std::sort(ranks.begin(), ranks.end());
  pmix_proc_t proc = self_;
  proc.rank = PMIX_RANK_WILDCARD;
  if (ranks.empty()) return {proc};
  std::vector<pmix_proc_t> procs;
  for (const int rank : ranks) {
    proc.rank = static_cast<pmix_rank_t>(rank);
    procs.push_back(proc);
  }
  return procs;
}

Result<std::vector<std::string>> PmixBootstrap::exchange(const std::string& own) {
  if (info_.size == 1) return std::vector<std::string>{own};
  const std::string key = keys_ + std::to_string(exchanges_++);
  HVD_CHECK(put(key, own));
  HVD_CHECK(fence(key));
  const auto most = std::chrono::ceil<std::chrono::seconds>(options_.timeout);
  std::vector<std::string> blobs;
  for (int rank = 0; rank < info_.size; ++rank) {
    HVD_TRY(auto blob, rank == info_.rank ? Result<std::string>(own) : get(rank, key, most));
    blobs.push_back(std::move(blob));
  }
  return blobs;
}

Result<void> PmixBootstrap::put(const std::string& key, const std::string& own) const {
  std::string bytes = own;
  pmix_value_t value;
  std::memset(&value, 0, sizeof value);
  value.type = PMIX_BYTE_OBJECT;
  value.data.bo.bytes = bytes.data();
  value.data.bo.size = bytes.size();
  if (const auto status = pmix_.PMIx_Put(PMIX_GLOBAL, key.c_str(), &value);
      status != PMIX_SUCCESS) {
    return pmix_error("rank " + std::to_string(self_.rank) + " cannot publish its data", status);
  }
  if (const auto status = pmix_.PMIx_Commit(); status != PMIX_SUCCESS) {
    return pmix_error("rank " + std::to_string(self_.rank) + " cannot publish its data", status);
  }
  return {};
}

// Waits for all ranks that start. Repeats a fence that an earlier program of a rank has ended: when
// the connection of such a program closes, the server (4.2, 5.0) takes it for the end of the rank's
// present program, and ends the fence for the ranks that wait. If the rank has ended indeed, the
// launcher or the time limit ends the wait.
Result<void> PmixBootstrap::fence(const std::string& key) const {
  const std::string what = chosen_.empty() ? "waiting for all ranks to start"
                                           : "waiting for " + describe_ranks(chosen_) +
                                                 " to start, all with this list of ranks";
  const auto end = std::chrono::steady_clock::now() + options_.timeout;
  for (;;) {
    const auto status = fence_until(end);
    if (status == PMIX_SUCCESS) return {};
    if (!status || status == PMIX_ERR_TIMEOUT || std::chrono::steady_clock::now() >= end)
      return too_late(what, key);
    if (status != PMIX_ERR_PARTIAL_SUCCESS) return pmix_error(what, *status);
  }
}

// Returns the error of a start that has taken too long. It names a rank that has not put the key.
Error PmixBootstrap::too_late(const std::string& what, const std::string& key) const {
  std::string who = "not all came";
  for (int rank = 0; rank < info_.size; ++rank) {
    if (rank == info_.rank || get(rank, key, kLook).ok()) continue;
    who = "rank " + std::to_string(number(rank)) + " did not come";
    break;
  }
  const auto seconds = std::to_string(options_.timeout.count() / 1000);
  return fail(HVD_ERROR_TIMEOUT,
              what + ": " + who + " within " + seconds + " s (HVD_START_TIMEOUT)");
}

// Enters one fence. Returns its status; nullopt if none came until a little after `end`.
std::optional<pmix_status_t> PmixBootstrap::fence_until(
    std::chrono::steady_clock::time_point end) const {
  const std::vector<pmix_proc_t> everyone = procs();
  pmix_info_t infos[2];
  const bool yes = true;
  const int limit = seconds_until(end);
  pmix_.PMIx_Info_load(&infos[0], PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
  pmix_.PMIx_Info_load(&infos[1], PMIX_TIMEOUT, &limit, PMIX_INT);
  const auto state = std::make_shared<FenceState>();
  auto context = std::make_unique<std::shared_ptr<FenceState>>(state);
  const auto status =
      pmix_.PMIx_Fence_nb(everyone.data(), everyone.size(), infos, 2, on_fence_done, context.get());
  if (status == PMIX_OPERATION_SUCCEEDED) return PMIX_SUCCESS;  // the callback will not run
  if (status != PMIX_SUCCESS) return status;
  (void)context.release();  // on_fence_done owns it now
  std::unique_lock lock(state->mutex);
  // A little longer than the server's own limit, because the server's error says more.
  state->changed.wait_until(lock, end + std::chrono::seconds(2),
                            [&] { return state->status.has_value(); });
  return state->status;
}

// Returns what the rank has put, and waits `most` for it.
Result<std::string> PmixBootstrap::get(int rank, const std::string& key,
                                       std::chrono::seconds most) const {
  pmix_proc_t proc = self_;
  proc.rank = static_cast<pmix_rank_t>(number(rank));
  pmix_info_t limit;
  const int limit_s = static_cast<int>(most.count());
  pmix_.PMIx_Info_load(&limit, PMIX_TIMEOUT, &limit_s, PMIX_INT);
  pmix_value_t* value = nullptr;
  const auto status = pmix_.PMIx_Get(&proc, key.c_str(), &limit, 1, &value);
  const std::string what =
      "cannot get what rank " + std::to_string(number(rank)) + " has published";
  if (status != PMIX_SUCCESS) return pmix_error(what, status);
  Result<std::string> blob = fail(HVD_ERROR_SYSTEM, what + ": it is not bytes");
  if (value->type == PMIX_BYTE_OBJECT) {
    blob = value->data.bo.size == 0 ? std::string()
                                    : std::string(value->data.bo.bytes, value->data.bo.size);
  }
  pmix_.PMIx_Value_destruct(value);
  std::free(value);
  return blob;
}

}  // namespace

bool leaves_pmix_to_mpi(const Environment& environment) {
  if (!is_set(environment, HVD_ENV_RANK) || !is_set(environment, "MASTER_ADDR")) return false;
  const auto pmix = PmixLibrary::load();
  return pmix.ok() && common::pmix_is_at_least(pmix->PMIx_Get_version(), "5.0.0");
}

Result<std::unique_ptr<Bootstrap>> open_pmix_bootstrap(const Environment& environment,
                                                       const BootstrapOptions& options) {
  HVD_TRY(const PmixLibrary pmix, PmixLibrary::load());
  HVD_TRY(std::shared_ptr<PmixMembership> membership, PmixMembership::open(pmix));
  auto bootstrap = std::make_unique<PmixBootstrap>(pmix, std::move(membership), options);
  HVD_CHECK(bootstrap->read_job(environment));
  return std::unique_ptr<Bootstrap>(std::move(bootstrap));
}

}  // namespace libhvd
