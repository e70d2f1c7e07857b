#include "slurm/partitions.hpp"

#include "base/subprocess.hpp"
#include "slurm/counts.hpp"
#include "slurm/fields.hpp"
#include "slurm/slurm_command.hpp"

#include <charconv>
#include <chrono>
#include <system_error>
#include <utility>

namespace hvdrun {
namespace {

constexpr char kSeparator = '|';
constexpr std::chrono::milliseconds kTimeout{10'000};

// Takes a field off the start of the line. Returns nullopt if it does not begin with a number of 1
// or more. ("8+" is 8: sinfo's form for "at least".)
std::optional<int> take_positive(std::string_view& line) {
  const auto field = take_field(line, kSeparator);
  int number = 0;
  const auto read = std::from_chars(field.data(), field.data() + field.size(), number);
  if (read.ec != std::errc() || number < 1) return std::nullopt;
  return number;
}

}  // namespace

std::vector<std::string> sinfo_command() {
  return {"sinfo", "--noheader", "--format=%P|%c|%D|%G"};
}

std::vector<PartitionInfo> parse_partitions(std::string_view text) {
  std::vector<PartitionInfo> all;
  while (!text.empty()) {
    auto line = take_field(text, '\n');
    PartitionInfo info;
    auto name = take_field(line, kSeparator);
    info.is_default = name.ends_with('*');
    if (info.is_default) name.remove_suffix(1);
    info.partition = std::string(name);
    const auto cpus = take_positive(line);
    const auto nodes = take_positive(line);
    if (!cpus || !nodes || info.partition.empty()) continue;
    info.cpus = *cpus;
    info.nodes = *nodes;
    info.gpus = count_gpus_of_gres(line).value_or(0);
    all.push_back(std::move(info));
  }
  return all;
}

std::optional<PartitionInfo> find_partition(const std::vector<PartitionInfo>& all,
                                            const std::string& name) {
  std::optional<PartitionInfo> found;
  for (const auto& info : all) {
    if (name.empty() ? !info.is_default : info.partition != name) continue;
    if (found && (found->gpus != info.gpus || found->cpus != info.cpus)) return std::nullopt;
    const int nodes = found ? found->nodes : 0;
    found = info;
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
  return find_partition(parse_partitions(end->out), partition);
}

}  // namespace hvdrun
