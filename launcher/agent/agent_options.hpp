// What guard and agent get from the launcher before they start. A plain value.
#pragma once

#include "model/job_spec.hpp"
#include "model/placement.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

namespace hvdrun {

struct AgentOptions {
  std::string job_id;
  std::size_t agent = 0;  // its number among the job's agents
  int restart_count = 0;
  PmixMode pmix = PmixMode::automatic;
  std::size_t local_ranks = 1;  // how many ranks it will be asked to start
  std::chrono::milliseconds host_timeout{
      0};  // sets the interval of the signs of life; see link.hpp
  // Whether the launcher is on this host. Its silence, however long, then does not end the job: a
  // launcher that ends closes the link.
  bool launcher_is_here = false;
  // Only for an agent on another host than the launcher's:
  std::optional<HostInventory> inventory;  // what this host offers; sent to the launcher
  std::string route;                       // of the link: "10.0.0.1:40312 > 10.0.0.2:22"

  // Whether TERM, INT and HUP are not reported to the launcher. SLURM sends them to all processes
  // of a job or step at once, as systemd does to those of a service, so the launcher gets its own.
  // True on the launcher's host and under srun. Over ssh only the agent knows that its host shuts
  // down.
  bool ignores_signals = false;
};

}  // namespace hvdrun
