#include "slurm/partitions.hpp"

#include "base/subprocess.hpp"
#include "common/text.hpp"
#include "slurm/counts.hpp"
#include "slurm/fields.hpp"
#include "slurm/slurm_command.hpp"

#include <algorithm>
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
  return {"sinfo", "--noheader", "--format=%P|%c|%D|%l|%G"};
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
    info.time_limit = std::string(take_field(line, kSeparator));
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

std::optional<PartitionInfo> largest_node(const std::vector<PartitionInfo>& all,
                                          const std::string& name) {
  std::optional<PartitionInfo> found;
  for (const auto& info : all) {
    if (name.empty() ? !info.is_default : info.partition != name) continue;
    if (!found) {
      found = info;
      continue;
    }
    found->nodes += info.nodes;
    found->gpus = std::max(found->gpus, info.gpus);
    found->cpus = std::max(found->cpus, info.cpus);
  }
  return found;
}

std::string describe_partition(const std::vector<PartitionInfo>& all, const std::string& name) {
  std::string text;
  std::string limit;
  for (const auto& info : all) {
    if (name.empty() ? !info.is_default : info.partition != name) continue;
    text += text.empty() ? "partition " + info.partition + " has " : ", ";
    text += plural(info.nodes, "node") + " with " + plural(info.cpus, "CPU");
    if (info.gpus > 0) text += " and " + plural(info.gpus, "GPU");
    if (info.nodes > 1) text += " each";
    if (info.time_limit != "infinite") limit = info.time_limit;
  }
  if (text.empty()) return {};
  return text + (limit.empty() ? "" : ", for at most " + limit) + " (sinfo)";
}

std::vector<PartitionInfo> query_partitions(std::vector<std::string> environment) {
  ProgramRequest request;
  request.command = sinfo_command();
  request.environment = std::move(environment);
  request.timeout = kTimeout;
  const auto end = run_slurm(std::move(request));
  if (!end || end->code != 0) return {};
  return parse_partitions(end->out);
}

}  // namespace hvdrun
