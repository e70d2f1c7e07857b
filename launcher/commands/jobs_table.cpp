#include "commands/jobs_table.hpp"

#include "common/text.hpp"
#include "slurm/job_state.hpp"
#include "slurm/output_path.hpp"
#include "slurm/times.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

namespace hvdrun {
namespace {

using Json = nlohmann::ordered_json;

// The most characters of a column. Longer texts are cut, so that the other columns stay on the
// screen.
constexpr std::size_t kLongestId = 24;
constexpr std::size_t kLongestName = 32;
constexpr std::size_t kLongestReason = 40;
constexpr std::size_t kLongestProgress = 60;

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

std::string start_text(const JobRecord& job, std::time_t now) {
  return job.start ? moment_text(*job.start, now) : "-";
}

std::string elapsed_text(const JobRecord& job) {
  const bool has_run = job.elapsed && phase_of(job.state) != JobPhase::pending;
  return has_run ? duration_text(*job.elapsed) : "-";
}

std::string left_text(const JobRecord& job) {
  if (job.left) return duration_text(*job.left);
  return job.limit ? "0:00" : "no limit";
}

template <class Duration>
Json seconds_or_null(const std::optional<Duration>& value) {
  return value ? Json(value->count()) : Json(nullptr);
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json job_json(const JobRecord& job) {
  const auto paths = output_paths(job);
  const bool pending = phase_of(job.state) == JobPhase::pending;
  Json exit_code;
  Json signal;
  if (job.exit && phase_of(job.state) == JobPhase::ended) {
    exit_code = job.exit->code;
    signal = job.exit->signal;
  }
  return {{"id", job.id},
          {"name", job.name},
          {"state", job.state},
          {"reason", job.reason == "None" ? Json(nullptr) : text_or_null(job.reason)},
          {"partition", job.partition},
          {"nodes", job.nodes},
          {"hosts", text_or_null(job.hosts)},
          {"elapsed", seconds_or_null(job.elapsed)},
          {"left", seconds_or_null(job.left)},
          {"submitted", job.submitted ? Json(*job.submitted) : Json(nullptr)},
          {pending ? "expected_start" : "start", job.start ? Json(*job.start) : Json(nullptr)},
          {"restarts", job.restarts},
          {"exit_code", std::move(exit_code)},
          {"signal", std::move(signal)},
          {"runs", what_it_runs(job)},
          {"output", text_or_null(paths.out)},
          {"work_dir", text_or_null(job.work_dir)}};
}

}  // namespace

std::string cut_text(const std::string& text, std::size_t columns) {
  std::size_t characters = 0;
  std::size_t fits = text.size();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_continuation(text[i])) continue;
    if (characters + 1 == columns) fits = i;
    if (++characters > columns) return text.substr(0, fits) + "…";
  }
  return text;
}

std::string jobs_table(const std::vector<JobRecord>& jobs, std::time_t now, std::size_t columns,
                       const std::vector<std::string>& progress) {
  if (jobs.empty()) return {};
  std::vector<TableRow> rows = {
      {"JOB", "NAME", "STATE", "NODES", "ELAPSED", "LEFT", "START", "RUNS"}};
  const bool has_progress =
      std::ranges::any_of(progress, [](const auto& each) { return !each.empty(); });
  if (has_progress) rows.front().insert(rows.front().end() - 1, "PROGRESS");
  for (const auto& job : jobs) {
    rows.push_back(
        {cut_text(escape(job.id), kLongestId), cut_text(escape(job.name), kLongestName),
         cut_text(state_text(job.state, job.reason), kLongestReason),
         job.hosts.empty() ? std::to_string(job.nodes) : cut_text(escape(job.hosts), kLongestName),
         elapsed_text(job), left_text(job), start_text(job, now), escape(what_it_runs(job))});
    if (!has_progress) continue;
    const auto& of_job = progress[rows.size() - 2];
    rows.back().insert(rows.back().end() - 1,
                       of_job.empty() ? "-" : cut_text(of_job, kLongestProgress));
  }
  std::string text;
  for (const auto& line : table_lines(rows))
    text += (columns == 0 ? line : cut_text(line, columns)) + "\n";
  return text;
}

std::string jobs_json(const std::vector<JobRecord>& jobs) {
  Json all = Json::array();
  for (const auto& job : jobs) all.push_back(job_json(job));
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hvdrun
