// Jobs of schedulers other than SLURM: how one is recognised, and which hosts it has. hvdrun starts
// nothing on them by itself yet, so a job of several hosts is refused, with what to type. A job of
// this host alone has the slots that the scheduler names.
//
// A table and pure functions, but for the file with the hosts. For any thread.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "model/host_request.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// A job of another scheduler, as its variables and its file describe it.
struct ForeignJob {
  std::string_view scheduler;      // "PBS"
  std::string id;                  // empty: its variables do not say it
  std::string source;              // the variable that has the hosts, or their number
  std::vector<HostRequest> hosts;  // empty: unknown. A host may come several times.
  std::optional<int> host_count;   // nullopt: unknown
  std::string all_hosts;           // what to type for all of them: "--hostfile $PBS_NODEFILE"
};

// Returns the job that these variables are of; nullopt if there is none. A file of hosts that
// cannot be read leaves the hosts unknown.
std::optional<ForeignJob> find_foreign_job(const Environment& environment);

// Returns the error (kExitUsage) for a job whose hosts hvdrun would leave unused.
Error several_hosts_error(const ForeignJob& job, const std::string& this_machine);

}  // namespace hvdrun
