#include "commands/own_job.hpp"

#include <string>

#include <fmt/format.h>

namespace hvdrun {
namespace {

std::string value_of(const Environment& environment, const char* name) {
  const auto* const value = find_variable(environment, name);
  return value == nullptr ? std::string() : *value;
}

}  // namespace

bool is_own_job(const JobId& id, const Environment& environment) {
  const auto array = value_of(environment, "SLURM_ARRAY_JOB_ID");
  const auto number = std::to_string(id.number);
  if (id.kind == JobId::Kind::array_task)
    return !array.empty() && id.text == array + "_" + value_of(environment, "SLURM_ARRAY_TASK_ID");
  return number == value_of(environment, "SLURM_JOB_ID") || number == array;
}

Error follows_itself(const JobId& id) {
  return fail(fmt::format("this is job {} itself, which would wait for its own end; follow it from "
                          "another shell",
                          id.text),
              kExitUsage);
}

}  // namespace hvdrun
