// Runs a PMIx program on simulated hosts. Each host starts a real PMIx server, as an agent does,
// and its ranks. Used by unit tests on their thread. Errors are returned.
#pragma once

#include "base/result.hpp"
#include "protocol/frame.hpp"

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace hvdrun {

struct RankEnd {
  int wait_status = -1;  // of a rank whose host was not killed
  std::string output;    // stdout and stderr
};

struct JobOnHosts {
  std::vector<int> ranks_per_host;
  std::vector<std::string> arguments;  // argv; the program's path first
  std::filesystem::path folder;        // gets files of the ranks and of PMIx
  // Called with each frame that an agent sends to the exchange. `kill_host` kills an agent and its
  // ranks.
  std::function<void(std::size_t host, const Frame& frame,
                     const std::function<void(std::size_t host)>& kill_host)>
      on_exchange;
};

struct JobEnd {
  std::vector<RankEnd> ranks;
  std::size_t exchanged = 0;  // frames that agents sent to the exchange
};

// Runs the program on all ranks until it ends. Returns an error if an agent or the exchange failed.
Result<JobEnd> run_on_hosts(const JobOnHosts& job);

}  // namespace hvdrun
