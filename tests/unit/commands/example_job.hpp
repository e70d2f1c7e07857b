// An example of a job of SLURM for tests.
#pragma once

#include "slurm/job_record.hpp"

#include <cstdint>
#include <string>

namespace hvdrun {

// Returns a job of the user 1000, or of another one.
inline JobRecord slurm_job(const std::string& id, std::uint32_t number, const std::string& state,
                           std::uint32_t uid = 1000) {
  JobRecord record;
  record.id = id;
  record.number = number;
  record.state = state;
  record.uid = uid;
  record.user = uid == 1000 ? "user" : "other";
  record.hosts = "n[1-2]";
  record.name = "train";
  return record;
}

}  // namespace hvdrun
