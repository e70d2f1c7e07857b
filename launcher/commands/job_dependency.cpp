#include "commands/job_dependency.hpp"

#include "base/severity.hpp"
#include "slurm/job_record.hpp"
#include "slurm/slurm_command.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// Returns the numbers of the jobs as squeue's --jobs takes them.
std::string numbers_of(const std::vector<JobId>& ids) {
  std::string list;
  for (const auto& id : ids) list += (list.empty() ? "" : ",") + std::to_string(id.number);
  return list;
}

// Returns the jobs that SLURM knows among those of these ids. Returns nullopt if it does not
// answer.
std::optional<std::vector<JobRecord>> look_up(const std::vector<JobId>& ids,
                                              const Environment& environment) {
  const auto end =
      run_slurm({squeue_for_list(numbers_of(ids)), query_environment(environment), {}});
  if (!end) return std::nullopt;
  auto answer = read_answer(*end);
  if (answer.kind == QueueAnswer::Kind::no_answer) return std::nullopt;
  return std::move(answer.jobs);
}

}  // namespace

std::vector<JobId> jobs_of_dependency(std::string_view text) {
  std::vector<JobId> jobs;
  while (!text.empty()) {
    const auto length = std::min(text.find_first_of(":,?"), text.size());
    const auto word = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    // "14+5" of `after` is job 14, and five minutes.
    if (auto id = parse_job_id(word.substr(0, word.find('+')))) jobs.push_back(std::move(*id));
  }
  return jobs;
}

std::vector<std::string> dependency_warnings(const BatchSpec& batch,
                                             const Environment& environment) {
  const auto& options = batch.slurm_options;
  const auto option = std::find_if(options.begin(), options.end(),
                                   [](const auto& one) { return one.name == "dependency"; });
  if (option == options.end()) return {};
  const auto ids = jobs_of_dependency(option->value);
  if (ids.empty()) return {};
  const auto known = look_up(ids, environment);
  if (!known) return {};
  std::vector<std::string> warnings;
  for (const auto& id : ids) {
    if (std::any_of(known->begin(), known->end(), [&](const auto& job) {
          return job.number == id.number || belongs_to(job.id, id.number);
        }))
      continue;
    warnings.push_back(warning_text(
        fmt::format("--dependency {}: SLURM knows no job {}: there was none, or it ended some time "
                    "ago; the new job may start without waiting for it",
                    option->value, id.text)));
  }
  return warnings;
}

}  // namespace hvdrun
