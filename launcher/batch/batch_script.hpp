// From what the user wants to a batch script. Pure functions.
#pragma once

#include "base/result.hpp"
#include "batch/batch_shape.hpp"
#include "model/batch_spec.hpp"
#include "model/job_spec.hpp"
#include "slurm/script/script_template.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// How often a job with --requeue goes back into the queue, where --max-restarts does not say it.
inline constexpr int kDefaultRequeues = 10;

// What it is warned by, where --signal does not say it: two minutes before the time limit, the
// script, whose place hvdrun has taken.
inline constexpr auto kRequeueSignal = "B:USR1@120";

// The command that the script runs.
struct BatchCommand {
  std::vector<std::string> hvdrun;   // hvdrun, and the options that it is to have
  std::vector<std::string> program;  // and its arguments
};

// What sbatch and salloc are asked for: options such as "--nodes=4".
struct Request {
  std::string variable;  // the template's variable that shows it
  std::string option;    // of hvdrun's command line: where it comes from; empty: worked out
  std::string text;
  bool is_own_idea = false;  // nobody asked for it
};
std::vector<Request> slurm_requests(const BatchSpec& batch, const BatchShape& shape);

struct BatchScript {
  std::string text;
  std::vector<std::string> directives;  // the requests that stand there as directives
};

// The script. Errors (kExitUsage): those of own_values and render_script; an option for which the
// template has no place.
Result<BatchScript> batch_script(const ScriptTemplate& script, const BatchSpec& batch,
                                 const BatchShape& shape, const BatchCommand& command);

}  // namespace hvdrun
