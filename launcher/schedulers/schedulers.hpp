// The schedulers that hvdrun knows, in a table, and whose job a process is in. For any thread.
// Nothing here fails.
#pragma once

#include "base/environment.hpp"
#include "scheduler/scheduler.hpp"

#include <span>
#include <string_view>

#include <sys/types.h>

namespace hvdrun {

using Schedulers = std::span<const Scheduler* const>;

// Returns the table: one row for each scheduler, which lives as long as the program.
Schedulers schedulers();

// Returns the first scheduler in the table whose job these variables are of; null: of none.
const Scheduler* scheduler_of(const Environment& environment, Schedulers all = schedulers());

// Returns whether a variable describes one process of a scheduler, so that ranks must not inherit
// it.
bool describes_process(std::string_view variable, Schedulers all = schedulers());

// Returns whether a process belongs to a scheduler, which sends jobs their signals. One that has
// ended does not.
bool is_scheduler(pid_t process, Schedulers all = schedulers());

}  // namespace hvdrun
