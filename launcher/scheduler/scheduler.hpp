// A scheduler of a cluster, as a process in one of its jobs sees it: how its job is noticed, which
// hosts it has, how agents are started there, its variables, its time, its signals, its queue.
//
// Each scheduler is one class in a folder of its own, and a row of schedulers/schedulers.cpp. A
// function that a scheduler does not override says that it has no such thing.
//
// For any thread. Functions that take an Ask, and those that say so, run commands of the scheduler
// and block for them; the others read variables only.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "model/job_part.hpp"
#include "model/placement.hpp"
#include "model/rank_variable.hpp"

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

// Runs a command of the scheduler and returns what it prints. An empty function knows nothing.
using Ask = std::function<Result<std::string>(const std::vector<std::string>& command)>;

// A host of a job, by the scheduler's name, and what the job has there.
struct JobHost {
  std::string name;
  JobShare share;
};

struct ScheduledJob {
  std::string id;                 // empty: its variables do not say it
  std::string source;             // for people: "SLURM job 7", "step 3 of SLURM job 7"
  std::vector<JobHost> hosts;     // in the scheduler's order; empty: its variables name none
  std::optional<int> host_count;  // nullopt: not known
  // The scheduler's name of this machine. Empty if the scheduler did not start this process: then
  // it is not confined to the job's CPUs and GPUs.
  std::string this_host;
  bool knows_gpus = true;  // false: only the hosts can say how many of its GPUs each has
  std::string hides_gpus;  // the option that hides GPUs of this host from this process; "": none
  std::string no_hosts;    // why it names no hosts: "A is set, but not B"
  std::string all_hosts;   // what to type for its hosts, if hvdrun starts no agents by itself there
  std::vector<std::string> reasons;  // see Allocation
  std::vector<std::string> notes;
};

// Every name that a scheduler has for a host.
struct JobHostNames {
  std::string name;       // as in ScheduledJob
  std::string address;    // a name or a number; empty: not known
  std::string host_name;  // what the host calls itself; empty: not known
};

// Names of variables. One that ends with "*" means all that begin so.
struct SchedulerVariables {
  // Those that describe one process, so that ranks must not inherit them.
  std::span<const std::string_view> of_process;
  // Those that are valid on one host only, or for one login.
  std::span<const std::string_view> of_host;
};

// A rank that a scheduler is to describe in its own variables.
struct DescribedRank {
  const Environment& caller;          // of hvdrun
  const Placement& placement;         // the job
  std::size_t host_index;             // of the rank's host
  const RankPlacement& rank;          // itself
  const std::string& job_id;          // hvdrun's own
  const std::string& launch_address;  // of rank 0's host, as a number
  bool is_cyclic = false;             // ranks are dealt to the hosts in turn
};

// What decides whether a job's signal before its time limit reaches the ranks.
struct SignalQuestion {
  const Environment& environment;
  bool is_on_one_host = false;
  int max_requeues = 0;
  // Returns whether a signal ends this process, which neither handles nor ignores it.
  std::function<bool(pid_t process, int signal)> ends_by;
  Ask ask;
};

class Scheduler {
 public:
  Scheduler() = default;
  virtual ~Scheduler() = default;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  virtual std::string_view name() const = 0;  // "SLURM"

  // Runs one of its commands, with the caller's environment, and returns what it prints. Blocks.
  // Error: the command's own words.
  virtual Result<std::string> run(std::vector<std::string> command,
                                  const Environment& environment) const;

  // --- the job that this process runs in ---------------------------------------------------------

  // Returns its id, "" if the variables do not say it; nullopt if they are of no job of this
  // scheduler.
  virtual std::optional<std::string> job_id(const Environment& environment) const = 0;

  // Returns the job. In a step of it, the step's hosts, unless `whole` asks for all. Error
  // (kExitUsage): a variable cannot be read, or hvdrun does not take a job of this kind.
  virtual Result<ScheduledJob> read_job(const Environment& environment, bool whole,
                                        const Ask& ask) const = 0;

  // Returns what starts agents on the job's other hosts; nullopt: hvdrun does not yet, and refuses
  // a job of several hosts.
  virtual std::optional<StartedBy> started_by() const { return std::nullopt; }

  // Returns every name of these hosts. Leaves out those that it does not know.
  virtual std::vector<JobHostNames> all_names(const std::vector<std::string>& hosts,
                                              const Ask& ask) const;

  // Returns what asks in a job's script for this many GPUs on each host, and as many tasks; ""
  // where hvdrun does not know it.
  virtual std::string line_for_gpus(int /*gpus*/, std::optional<std::size_t> /*hosts*/) const {
    return {};
  }

  // Returns whether this process runs in a batch script, so that people read its output in a file.
  virtual bool is_batch(const Environment&) const { return false; }

  // Returns the variable with the index of a job array's task; "" where there is none.
  virtual std::string_view array_variable() const { return {}; }

  // --- variables ---------------------------------------------------------------------------------

  virtual SchedulerVariables variables() const { return {}; }

  // Returns the numbers of the GPUs that the job has on this host, as "0,2-3"; nullptr if the
  // scheduler did not start this process, or does not say.
  virtual const std::string* gpus_here(const Environment&) const { return nullptr; }

  // Returns its value of CUDA_VISIBLE_DEVICES and its kind for no device.
  virtual std::string_view no_devices() const { return {}; }

  // Returns variables for the ranks of this host alone.
  virtual std::vector<RankVariable> variables_here(const Environment&) const { return {}; }

  // Returns whether it describes ranks to programs, which may then take its word for them.
  virtual bool describes_ranks() const { return false; }

  // Returns the variables by which programs that it starts itself find their ranks.
  virtual std::vector<RankVariable> rank_variables(const DescribedRank&) const { return {}; }

  // Returns those of rank_variables() that are not yet known when a rank joins a running job.
  virtual std::span<const std::string_view> unknown_to_newcomers() const { return {}; }

  // --- time and signals --------------------------------------------------------------------------

  // Returns whether this process is the scheduler's, which sends a job its signals.
  virtual bool is_sender(pid_t) const { return false; }

  // Returns the time that the job's ranks have after its SIGTERM; nullopt: not known. Blocks.
  virtual std::optional<std::chrono::milliseconds> time_after_sigterm(const Environment&) const {
    return std::nullopt;
  }

  // Returns a warning if the job's signal before its time limit reaches none of the ranks, or keeps
  // the job from going back into the queue; otherwise "".
  virtual std::string missed_signal(const SignalQuestion&) const { return {}; }

  // --- the queue ---------------------------------------------------------------------------------

  // Returns which part of the job this process belongs to. It has no id outside a job, and where
  // jobs cannot go back into the queue.
  virtual JobPart part(const Environment&) const { return {}; }

  // Checks whether this job could. Error: why not, and what to do.
  virtual Result<void> check_requeue(const Environment&) const { return {}; }

  // Puts the job back. The scheduler then ends its processes, perhaps before this returns. Blocks.
  // Error: the scheduler's own words.
  virtual Result<void> requeue(const std::string& job, const Environment& environment) const;

  // --- hosts outside its jobs --------------------------------------------------------------------

  // Returns whether this host belongs to a cluster of this scheduler and runs none of its jobs. It
  // looks at files only. `root`: of the files; "/" but in tests.
  virtual bool is_login_node(const Environment&, const std::filesystem::path& /*root*/) const {
    return false;
  }

  // Returns what a user types there: "hvdrun sbatch submits a job".
  virtual std::string_view to_submit() const { return {}; }
};

}  // namespace hvdrun
