// The hosts of a scheduler's job, with what the job gives each and what this machine has. A pure
// function, for any thread.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "model/job_spec.hpp"
#include "model/placement.hpp"
#include "resources/inventory.hpp"
#include "scheduler/scheduler.hpp"

namespace hvdrun {

// Returns all hosts of a job on whose hosts agents can be started. Whatever number of tasks the
// user asked for, a host has one slot per GPU.
//
// If this machine is one of the hosts, its inventory is known at once. But a process that the
// scheduler did not start (a command of salloc) is not confined to the job. If it does not see
// which GPUs are the job's, an agent that is started there reports the inventory, as for any other
// host.
//
// Error (kExitUsage): an option hides GPUs of this host from the step that hvdrun runs in, and so
// from the ranks. The message has the options that hide none.
Result<Allocation> scheduled_hosts(const JobSpec& spec, const Scheduler& scheduler,
                                   const ScheduledJob& job, const Environment& environment,
                                   const LocalMachine& machine);

// Returns this machine with the slots that the job of another scheduler has here. Error
// (kExitUsage): the job has other hosts, or may have them; the message says what to type.
Result<Allocation> only_this_host(const JobSpec& spec, const Scheduler& scheduler,
                                  const ScheduledJob& job, const LocalMachine& machine);

}  // namespace hvdrun
