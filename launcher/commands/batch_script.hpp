// Makes a batch script from a template and the user's request, and the options that sbatch and
// salloc get. Pure functions and values, for any thread. Errors have exit code kExitUsage.
#pragma once

#include "base/result.hpp"
#include "commands/batch_shape.hpp"
#include "model/batch_spec.hpp"
#include "model/job_spec.hpp"
#include "slurm/script_template.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// How often a job with --requeue goes back into the queue, unless --max-restarts or --max-requeues
// says it.
inline constexpr int kDefaultRequeues = 10;

// The signal before the end of a job with --requeue, unless --signal says it: SIGUSR1, 120 s before
// the time limit, to the batch script, which hvdrun has replaced with exec.
inline constexpr auto kRequeueSignal = "B:USR1@120";

// The command that the script runs.
struct BatchCommand {
  std::vector<std::string> hvdrun;   // hvdrun and its options
  std::vector<std::string> program;  // the program and its arguments
};

// One option for sbatch or salloc, such as "--nodes=4".
struct Request {
  std::string variable;  // the template's variable that shows it
  std::string option;    // hvdrun's option that it is from; empty: hvdrun computed it
  std::string text;
  bool is_own_idea = false;  // the user did not request it
};
std::vector<Request> slurm_requests(const BatchSpec& batch, const BatchShape& shape);

struct BatchScript {
  std::string text;
  std::vector<std::string> directives;  // the requests that {{directives}} shows in the script
};

// Returns the script. Errors: those of own_values and render_script; an option for which the
// template has no place.
Result<BatchScript> batch_script(const ScriptTemplate& script, const BatchSpec& batch,
                                 const BatchShape& shape, const BatchCommand& command);

}  // namespace hvdrun
