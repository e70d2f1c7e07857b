// How the ranks of a job find each other, before there is any transport between them.
//
// One operation carries everything: exchange(), an all-gather of small blobs. It is collective: all
// ranks call it, the same number of times. No server is left running between exchanges.
//
// Used by one thread. Its destructor closes it.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "bootstrap/rank_info.hpp"
#include "bootstrap/socket.hpp"

#include <chrono>
#include <cstdint>
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

  // Gives `own` to all ranks; returns all ranks' blobs, in order of ranks. Error: a rank ended or
  // closed its connection (HVD_ERROR_PEER), did not come in time (HVD_ERROR_TIMEOUT), ….
  virtual Result<std::vector<std::string>> exchange(const std::string& own) = 0;

  // The address of this host on the way to rank 0's, as far as this way of wireup shows it.
  virtual std::optional<Address> own_address() const { return std::nullopt; }

  // What must stay open when this is closed, until the process ends, or else there can be no second
  // bootstrap; null: nothing.
  virtual std::shared_ptr<void> lasting() { return nullptr; }
};

struct BootstrapOptions {
  // How long to wait for the others, in all.
  std::chrono::milliseconds timeout{120'000};
  // Those of the job that take part, in the order in which they are counted here; none: all. Each
  // of them gives the same list.
  std::optional<std::vector<int>> ranks = std::nullopt;
  // Of this process: PMIx remembers what was put before.
  std::shared_ptr<StartCounts> starts = std::make_shared<StartCounts>();
};

// The one that the environment asks for:
//   PMIX_NAMESPACE and PMIX_RANK         PMIx: hvdrun, mpirun (Open MPI), srun --mpi=pmix
//   HVD_RANK and HVD_SIZE                hvdrun --pmix off, or by hand
//   RANK and WORLD_SIZE                  torchrun
//   none of these                        a job of one rank
Result<std::unique_ptr<Bootstrap>> open_bootstrap(const Environment& environment,
                                                  const BootstrapOptions& options);

// The ways, each a function so that the classes stay in their files.
std::unique_ptr<Bootstrap> open_single_bootstrap();
Result<std::unique_ptr<Bootstrap>> open_environment_bootstrap(const Environment& environment,
                                                              const BootstrapOptions& options);
Result<std::unique_ptr<Bootstrap>> open_pmix_bootstrap(const Environment& environment,
                                                       const BootstrapOptions& options);

}  // namespace libhvd
