#include "scheduler/scheduler.hpp"

#include <utility>

#include <fmt/format.h>

namespace hvdrun {

Result<std::string> Scheduler::run(std::vector<std::string> command, const Environment&) const {
  return fail(fmt::format("hvdrun runs no commands of {}: {}", name(), command.at(0)));
}

std::vector<JobHostNames> Scheduler::all_names(const std::vector<std::string>&, const Ask&) const {
  return {};
}

Result<void> Scheduler::requeue(const std::string& job, const Environment&) const {
  return fail(fmt::format("hvdrun does not put jobs of {} back into the queue: {}", name(), job));
}

}  // namespace hvdrun
