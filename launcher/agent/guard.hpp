// The guard and, below it, the agent: the two processes that hvdrun has on every host.
//
//   launcher ── guard (subreaper) ── agent (subreaper) ── ranks ── whatever they start
//
// The guard does nothing but wait for the agent: when that ends, however it ends, the guard kills
// what is left of the job on this host and removes the job's folders. When the launcher is gone, it
// lets an agent that is stopped go on, so that it can end the job. When the guard is killed, the
// agent notices and ends the job. Both can be killed at once: then the launcher does the same.
#pragma once

#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "protocol/link.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace hvdrun {

// As ps shows it. `pkill -9 hvdrun` takes every process with "hvdrun" in its name, with -f those
// with the word in their command line. The guard has it in neither: it lives on, and ends what is
// left.
inline constexpr char kGuardProcess[] = "hvd-guard";

struct AgentOptions {
  std::string job_id;
  std::size_t agent = 0;  // which of the job's
  int restart_count = 0;
  PmixMode pmix = PmixMode::automatic;
  std::size_t local_ranks = 1;                // how many it will be asked to start
  std::chrono::milliseconds host_timeout{0};  // signs of life are for it; see link.hpp
  // Its silence is no end then, however long: a launcher that ends closes the link.
  bool launcher_is_here = false;
  // Of an agent on another host than the launcher's:
  std::optional<HostInventory> inventory;  // what this host offers, which the launcher is told
  std::string route;                       // of the link: "10.0.0.1:40312 > 10.0.0.2:22"

  // TERM, INT and HUP are nothing to tell the launcher of. SLURM sends them to all processes of a
  // job or step at once, as systemd does to those of a service: the launcher has its own then. Set
  // for the launcher's own host and under srun; over ssh only the agent knows that its host shuts
  // down.
  bool ignores_signals = false;
};

// Turns the calling process, which must have one thread, into the guard; never returns. The link's
// descriptors are the only ones that are kept besides 0, 1 and 2.
[[noreturn]] void become_guard(const AgentOptions& options, LinkEnd link);

}  // namespace hvdrun
