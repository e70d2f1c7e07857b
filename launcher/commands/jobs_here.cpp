#include "commands/jobs_here.hpp"

#include "commands/jobs_table.hpp"
#include "common/text.hpp"
#include "control/job_now_json.hpp"
#include "slurm/times.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <fmt/format.h>

namespace hvdrun {

namespace {

std::string ranks_cell(const JobAbout& about) {
  if (about.ranks == 0) return "-";
  const auto ranks = std::to_string(about.ranks);
  return about.spares == 0 ? ranks : ranks + ", " + plural(about.spares, "spare");
}

}  // namespace

std::string jobs_here_table(const std::vector<RunningJob>& jobs, std::time_t now,
                            std::size_t columns) {
  if (jobs.empty()) return {};
  std::vector<TableRow> rows = {
      {"PID", "STATE", "RANKS", "HOSTS", "ELAPSED", "SLURM", "LOOK INTO IT", "RUNS"}};
  for (const auto& job : jobs) {
    if (!job.trouble.empty()) {
      rows.push_back(
          {std::to_string(job.pid), "no answer", "-", "-", "-", "-", "-", escape(job.trouble)});
      continue;
    }
    const auto& about = job.about;
    const auto elapsed = std::max<std::int64_t>(now - static_cast<std::time_t>(about.begun), 0);
    rows.push_back({std::to_string(job.pid), escape(about.phase), ranks_cell(about),
                    about.hosts > 0 ? std::to_string(about.hosts) : "-",
                    duration_text(std::chrono::seconds(elapsed)),
                    about.scheduler_job.empty() ? "-" : escape(about.scheduler_job),
                    fmt::format("hvdrun top {}", job.pid), escape(command_text(about.command))});
  }
  std::string text;
  for (const auto& line : table_lines(rows))
    text += (columns == 0 ? line : cut_text(line, columns)) + "\n";
  return text;
}

std::string jobs_here_json(const std::vector<RunningJob>& jobs) {
  ControlJson all = ControlJson::array();
  for (const auto& job : jobs) {
    auto json = to_json(job.about);
    json["pid"] = job.pid;
    json["trouble"] = job.trouble.empty() ? ControlJson() : ControlJson(job.trouble);
    all.push_back(std::move(json));
  }
  return all.dump(2, ' ', false, ControlJson::error_handler_t::replace) + "\n";
}

}  // namespace hvdrun
