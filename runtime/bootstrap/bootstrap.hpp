// How the ranks of a job find each other, before there is any transport between them.
//
// Everything goes through exchange(), an all-gather of small blobs. It is a collective: all ranks
// call it, the same number of times. No server keeps running between exchanges.
//
// One thread at a time. The destructor closes the bootstrap.
#pragma once

#include "base/error.hpp"
#include "base/process_environment.hpp"
#include "bootstrap/chosen_ranks.hpp"
#include "bootstrap/rank_info.hpp"
#include "bootstrap/socket.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace libhvd {

// The most bytes of one rank's blob.
inline constexpr std::size_t kMostBlobBytes = 64 * 1024;

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  virtual const RankInfo& info() const = 0;

  // Sends `own` to all ranks, and returns the blobs of all ranks in the order of ranks. Error: a
  // rank has ended or closed its connection (HVD_ERROR_PEER), or did not call in time
  // (HVD_ERROR_TIMEOUT), ….
  virtual Result<std::vector<std::string>> exchange(const std::string& own) = 0;

  // Returns the address of this host on the way to rank 0's host. Returns nullopt if this kind of
  // bootstrap does not know it.
  virtual std::optional<Address> own_address() const { return std::nullopt; }

  // Returns what must stay open until the process ends, because otherwise there can be no second
  // bootstrap. Null if there is no such thing.
  virtual std::shared_ptr<void> lasting() { return nullptr; }
};

struct BootstrapOptions {
  // How long to wait for the other ranks, in all.
  std::chrono::milliseconds timeout{120'000};
  // A descriptor that the caller keeps open while the bootstrap lives: when it is readable, all
  // waits for other ranks end, but those of PMIx, and return the error of start_cancelled(). -1:
  // none.
  int cancel = -1;
  // The ranks of the job that start together, in their new order; nullopt for all. Each of them
  // passes the same list.
  std::optional<std::vector<int>> ranks = std::nullopt;
  // One per process, because PMIx keeps the keys of earlier starts.
  std::shared_ptr<StartCounts> starts = std::make_shared<StartCounts>();
};

// Returns the error of a start that a `cancel` descriptor has ended: HVD_ERROR_PEER.
Error start_cancelled();

// Returns the outcome of a wait, or start_cancelled() if it has failed and was cancelled.
template <class T>
Result<T> or_cancelled(Result<T> outcome, int cancel) {
  if (!outcome.ok() && Deadline({}, cancel).cancelled()) return start_cancelled();
  return outcome;
}

// Opens the bootstrap that the environment asks for:
//   PMIX_NAMESPACE and PMIX_RANK         PMIx: hvdrun, mpirun (Open MPI), srun --mpi=pmix
//   HVD_RANK and HVD_SIZE                hvdrun --pmix off, or by hand
//   RANK and WORLD_SIZE                  torchrun
//   none of these                        a job of one rank
// Error: a variable is missing or wrong, or rank 0 or the PMIx server cannot be reached.
Result<std::unique_ptr<Bootstrap>> open_bootstrap(const Environment& environment,
                                                  const BootstrapOptions& options);

// Returns what HVD_RANK, HVD_SIZE, ..., or RANK, WORLD_SIZE, ..., say of this rank; without them,
// that it is alone. Error: a variable is missing or wrong.
Result<RankInfo> read_rank_info(const Environment& environment);

// Open one kind of bootstrap each. They are functions, so that the classes stay in their files.
std::unique_ptr<Bootstrap> open_single_bootstrap();
Result<std::unique_ptr<Bootstrap>> open_environment_bootstrap(const Environment& environment,
                                                              const BootstrapOptions& options);
Result<std::unique_ptr<Bootstrap>> open_pmix_bootstrap(const Environment& environment,
                                                       const BootstrapOptions& options);

// Returns whether the ranks of hvdrun meet at rank 0's address although there is PMIx: from libpmix
// 5 on. Open MPI 5, which uses it, does not learn its own rank from a PMIx that libhvd has opened
// before (ompi_rte_init in ompi/runtime/ompi_rte.c of 5.0.7).
bool leaves_pmix_to_mpi(const Environment& environment);

}  // namespace libhvd
