#include "slurm/slurm_command.hpp"

#include "common/text.hpp"
#include "slurm/host_list.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
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

// A line without "sbatch: error: ", "squeue: fatal: " before it.
std::string_view without_prefix(std::string_view line) {
  for (const std::string_view kind : {"error: ", "fatal: "})
    if (const auto found = line.find(kind); found < 16) return line.substr(found + kind.size());
  return line;
}

constexpr char kSeparator = '|';
constexpr std::chrono::milliseconds kTimeout{10'000};

// The text up to the separator, which is taken away with it.
std::string_view take_field(std::string_view& line) {
  const auto end = line.find(kSeparator);
  const auto field = line.substr(0, end);
  line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  return field;
}

std::optional<int> take_positive(std::string_view& line) {
  const auto field = take_field(line);
  int number = 0;
  const auto read = std::from_chars(field.data(), field.data() + field.size(), number);
  if (read.ec != std::errc() || number < 1) return std::nullopt;
  return number;
}

// Takes the prefix away, if it is there.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 10 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
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
    // "Try "sbatch --help" for more information": not hvdrun's words.
    if (line.find_first_not_of(" \t\r") == std::string_view::npos || line.starts_with("Try "))
      continue;
    words += (words.empty() ? "" : "; ") + std::string(line);
  }
  return words.empty() ? "exit code " + std::to_string(end.code)
                       : escape(std::string_view(words).substr(0, 1024));
}

std::vector<std::string> sinfo_command() {
  return {"sinfo", "--noheader", "--format=%P|%c|%D|%G"};
}

std::vector<PartitionInfo> parse_partitions(std::string_view text) {
  std::vector<PartitionInfo> offers;
  while (!text.empty()) {
    const auto end = text.find('\n');
    auto line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    PartitionInfo offer;
    auto partition = take_field(line);
    offer.is_default = partition.ends_with('*');
    if (offer.is_default) partition.remove_suffix(1);
    offer.partition = std::string(partition);
    const auto cpus = take_positive(line);
    const auto nodes = take_positive(line);
    if (!cpus || !nodes || offer.partition.empty()) continue;
    offer.cpus = *cpus;
    offer.nodes = *nodes;
    offer.gpus = count_gpus_of_gres(line).value_or(0);
    offers.push_back(std::move(offer));
  }
  return offers;
}

std::optional<PartitionInfo> offer_of(const std::vector<PartitionInfo>& offers,
                                      const std::string& partition) {
  std::optional<PartitionInfo> found;
  for (const auto& offer : offers) {
    if (partition.empty() ? !offer.is_default : offer.partition != partition) continue;
    if (found && (found->gpus != offer.gpus || found->cpus != offer.cpus)) return std::nullopt;
    const int nodes = found ? found->nodes : 0;
    found = offer;
    found->nodes += nodes;
  }
  return found;
}

std::optional<PartitionInfo> query_partitions(const std::string& partition,
                                              const Environment& environment) {
  ProgramRequest request;
  request.command = sinfo_command();
  request.environment = query_environment(environment);
  request.timeout = kTimeout;
  const auto end = run_slurm(std::move(request));
  if (!end || end->code != 0) return std::nullopt;
  return offer_of(parse_partitions(end->out), partition);
}

SallocLine read_salloc_line(std::string_view line) {
  using Kind = SallocLine::Kind;
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  if (!take(line, "salloc: ")) return {Kind::other, std::string(line)};
  auto rest = line;
  if (take(rest, "Pending job allocation ") && is_number(rest))
    return {Kind::pending, std::string(rest)};
  rest = line;
  if (take(rest, "Granted job allocation ") && is_number(rest))
    return {Kind::granted, std::string(rest)};
  if (line.find(" has been revoked") != std::string_view::npos)
    return {Kind::revoked, std::string(line)};
  if (line.starts_with("Relinquishing job allocation ")) return {Kind::given_back, {}};
  const bool is_routine =
      line.starts_with("Waiting for resource configuration") ||
      line.starts_with("Job aborted due to signal") ||
      (line.starts_with("Nodes ") && line.ends_with(" ready for job")) ||
      (line.starts_with("job ") && (line.ends_with(" queued and waiting for resources") ||
                                    line.ends_with(" has been allocated resources")));
  if (is_routine) return {Kind::routine, {}};
  take(line, "error: ");
  take(line, "fatal: ");
  return {Kind::other, std::string(line)};
}

}  // namespace hvdrun
