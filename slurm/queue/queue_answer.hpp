// The question for one job, and what SLURM answered. Pure functions.
#pragma once

#include "base/program_run.hpp"
#include "slurm/queue/job_id.hpp"
#include "slurm/queue/job_record.hpp"

#include <string>
#include <vector>

namespace hvdrun {

struct QueueAnswer {
  enum class Kind {
    jobs,
    no_such_job,  // there never was one, or it ended more than MinJobAge ago
    no_answer,    // slurmctld is away, or something else is wrong
  };
  Kind kind = Kind::no_answer;
  std::vector<JobRecord> jobs;  // several: an array, a heterogeneous job
  std::string complaint;        // of no_answer: squeue's words
};

// squeue for that job, whatever its state; of an array's task each task for itself.
std::vector<std::string> squeue_for(const JobId& id);

QueueAnswer read_answer(const ProgramEnd& end);

}  // namespace hvdrun
