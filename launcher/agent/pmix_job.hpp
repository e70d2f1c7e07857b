// The job as the PMIx server of an agent knows it. A plain value.
#pragma once

#include "protocol/messages.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hvdrun {

struct PmixJob {
  struct Host {
    std::string name;
    std::vector<int> ranks;
  };
  // A secret: a process that knows it can join the job as one of its ranks. PmixListener refuses
  // other users only if the kernel says who connects, and psec/native believes the user id that
  // a client states. So it is unguessable, and is in the ranks' environment only.
  std::string nspace;
  int size = 0;
  int host_index = 0;  // this agent's
  std::vector<Host> hosts;
  std::chrono::milliseconds stall_time{0};  // warn of longer waits; 0: never

  static PmixJob of(const LaunchMessage& launch) {
    PmixJob job{launch.pmix_namespace, launch.size, launch.host_index, {}, launch.stall_time};
    for (const auto& host : launch.hosts) job.hosts.push_back({host.name, host.ranks});
    return job;
  }

  const std::vector<int>& local_ranks() const {
    return hosts[static_cast<std::size_t>(host_index)].ranks;
  }
  // Returns the index of each rank's host, by rank.
  std::vector<std::uint32_t> host_of_ranks() const {
    std::vector<std::uint32_t> host_of(static_cast<std::size_t>(size));
    for (std::size_t host = 0; host < hosts.size(); ++host)
      for (const int rank : hosts[host].ranks)
        host_of[static_cast<std::size_t>(rank)] = static_cast<std::uint32_t>(host);
    return host_of;
  }
};

}  // namespace hvdrun
