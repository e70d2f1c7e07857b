// The settings that the launcher gives to guard and agent before they start. A plain value.
#pragma once

#include "agent/host_facts.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

struct AgentOptions {
  std::string job_id;
  std::size_t agent = 0;  // its number among the job's agents, from 0
  int restart_count = 0;
  PmixMode pmix = PmixMode::automatic;
  std::size_t local_ranks = 1;  // how many ranks it will be asked to start
  // How many ports it holds for them from the start, and their MASTER_PORT, as in HoldPortsMessage.
  // 0: it will be asked later.
  int ports = 0;
  int master_port = 0;
  // Whether it reports HostFacts, with names that it tries to resolve.
  bool reports_facts = false;
  std::vector<std::string> names = {};
  // Sets the interval of the signs of life (Silence::interval); 0: the agent sends and expects
  // none.
  std::chrono::milliseconds host_timeout{0};
  // Whether the launcher is on this host. If so, its silence never ends the job, because a launcher
  // that ends closes the link.
  bool launcher_is_here = false;
  // Only for an agent on another host than the launcher's:
  std::optional<HostInventory> inventory;  // what this host offers; sent to the launcher
  LinkRoute route;

  // Whether the agent does not report TERM, INT and HUP to the launcher. A scheduler sends them to
  // all processes of a job or step at once, as systemd does to those of a service, so the launcher
  // gets them, too. True on the launcher's host and under srun. Over ssh only the agent knows that
  // its host shuts down.
  bool ignores_signals = false;
};

}  // namespace hvdrun
