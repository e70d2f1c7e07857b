#include "slurm/slurm_command.hpp"

#include "common/text.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace hvdrun {
namespace {

constexpr std::string_view kDroppedPrefixes[] = {"SACCT_", "SCANCEL_", "SINFO_", "SQUEUE_"};
constexpr std::string_view kOverridden[] = {"LANG", "LANGUAGE", "SLURM_BITSTR_LEN",
                                            "SLURM_TIME_FORMAT"};

bool is_dropped(std::string_view name) {
  const auto begins = [name](std::string_view prefix) { return name.starts_with(prefix); };
  return std::any_of(std::begin(kDroppedPrefixes), std::end(kDroppedPrefixes), begins) ||
         std::find(std::begin(kOverridden), std::end(kOverridden), name) != std::end(kOverridden) ||
         begins("LC_");
}

// By these srun finds its cluster and proves who we are. All other variables with the prefixes
// below are options of a step (srun reads dozens) or describe the caller's own step.
constexpr std::array<std::string_view, 8> kKept{
    "SLURM_CONF",     "SLURM_CONF_SERVER", "SLURM_JOB_ID",          "SLURM_JWT",
    "SLURM_SACK_KEY", "SLURM_SACK_JWKS",   "SLURM_WORKING_CLUSTER", "SLURM_STEPMGR"};
constexpr std::array<std::string_view, 6> kDropped{"SLURM_", "SLURMD_", "SRUN_",
                                                   "PMI_",   "PMIX_",   "OMPI_COMM_WORLD_"};

bool is_passed(std::string_view name) {
  if (std::find(kKept.begin(), kKept.end(), name) != kKept.end()) return true;
  return std::none_of(kDropped.begin(), kDropped.end(),
                      [name](auto prefix) { return name.substr(0, prefix.size()) == prefix; });
}

// Returns the line without a prefix such as "sbatch: error: " or "squeue: fatal: ".
std::string_view without_prefix(std::string_view line) {
  for (const std::string_view kind : {"error: ", "fatal: "})
    if (const auto found = line.find(kind); found < 16) return line.substr(found + kind.size());
  return line;
}

}  // namespace

std::vector<std::string> environment_block(const Environment& environment) {
  std::vector<std::string> block;
  block.reserve(environment.size());
  for (const auto& [name, value] : environment) block.push_back(name + "=" + value);
  return block;
}

std::vector<std::string> query_environment(const Environment& environment) {
  Environment changed;
  for (const auto& [name, value] : environment)
    if (!is_dropped(name)) changed.emplace(name, value);
  changed["LC_ALL"] = "C";
  changed["SLURM_TIME_FORMAT"] = "%s";
  changed["SLURM_BITSTR_LEN"] = "0";
  return environment_block(changed);
}

std::vector<std::string> srun_environment(const Environment& caller) {
  std::vector<std::string> block;
  for (const auto& [name, value] : caller)
    if (is_passed(name)) block.push_back(name + "=" + value);
  return block;
}

Error explain_start_failure(const std::string& program, Error error) {
  if (!is_not_installed(error)) return error;
  return {"there is no SLURM on this machine: " + program +
              " is not in PATH; on a cluster, log in to a host from which jobs are submitted",
          kExitNotFound};
}

Result<ProgramEnd> run_slurm(ProgramRequest request) {
  const std::string program = request.command.front();
  auto end = run_program(std::move(request));
  if (!end) return explain_start_failure(program, std::move(end).error());
  return end;
}

std::string complaint(const ProgramEnd& end) {
  if (end.timed_out) return "no answer in time";
  if (has_no_cluster(end)) return kNoCluster;
  std::string words;
  for (std::string_view rest = end.err; !rest.empty() && words.size() < 1024;) {
    const auto newline = rest.find('\n');
    const auto line = without_prefix(rest.substr(0, newline));
    rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
    // Leaves out: Try "sbatch --help" for more information. hvdrun has other options.
    if (line.find_first_not_of(" \t\r") == std::string_view::npos || line.starts_with("Try "))
      continue;
    words += (words.empty() ? "" : "; ") + std::string(line);
  }
  return words.empty() ? "exit code " + std::to_string(end.code)
                       : escape(std::string_view(words).substr(0, 1024));
}

}  // namespace hvdrun
