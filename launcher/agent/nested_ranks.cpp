#include "agent/nested_ranks.hpp"

#include "common/file_content.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

// Between the looks. Launchers of Python start their ranks after some seconds.
constexpr std::array kWaits{milliseconds(1000), milliseconds(4000), milliseconds(20000)};
// A rank may have any number of processes. Those of a launcher are among the first.
constexpr std::size_t kMostProcesses = 64;

struct Names {
  std::string_view rank;
  std::string_view size;
};
constexpr std::array kNames{Names{"RANK", "WORLD_SIZE"}, Names{"PMI_RANK", "PMI_SIZE"},
                            Names{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}};

// Returns the parts of a file of /proc that NUL characters end.
std::vector<std::string> parts_of(pid_t pid, const char* file) {
  std::istringstream stream(content_of(fmt::format("/proc/{}/{}", pid, file)));
  std::vector<std::string> parts;
  for (std::string part; std::getline(stream, part, '\0');) parts.push_back(part);
  return parts;
}

Environment variables_of(pid_t pid) {
  Environment variables;
  for (auto& part : parts_of(pid, "environ")) {
    const auto equals = part.find('=');
    if (equals != std::string::npos) variables[part.substr(0, equals)] = part.substr(equals + 1);
  }
  return variables;
}

std::string value_of(const Environment& environment, std::string_view name) {
  const auto* value = find_variable(environment, name);
  return value == nullptr ? std::string() : *value;
}

bool is_several(const std::string& size) {
  int number = 0;
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), number);
  return error == std::errc{} && end == size.data() + size.size() && number > 1;
}

}  // namespace

std::optional<NestedRank> find_nested_rank(
    pid_t root, const std::vector<ProcessInfo>& below,
    const std::function<Environment(pid_t)>& environment_of) {
  const auto given = environment_of(root);
  const auto most = std::min(below.size(), kMostProcesses);
  // The numbers of one parent's processes: a program that only renumbers itself has one.
  std::map<std::pair<pid_t, std::string_view>, std::set<std::string>> numbers;
  std::map<std::pair<pid_t, std::string_view>, NestedRank> other;
  for (std::size_t i = 0; i < most; ++i) {
    const auto own = environment_of(below[i].pid);
    for (const auto& [rank_name, size_name] : kNames) {
      const auto rank = value_of(own, rank_name);
      const auto size = value_of(own, size_name);
      if (rank.empty() || !is_several(size)) continue;
      const std::pair key(below[i].parent, rank_name);
      auto& all = numbers[key];
      all.insert(rank);
      if (rank != value_of(given, rank_name))
        other.try_emplace(
            key, NestedRank{below[i].pid, below[i].parent,
                            fmt::format("{}={}, {}={}", rank_name, rank, size_name, size)});
      const auto found = other.find(key);
      if (all.size() > 1 && found != other.end()) return found->second;
    }
  }
  return std::nullopt;
}

std::string program_in(const std::vector<std::string>& command_line) {
  const auto name_of = [](const std::string& word) { return word.substr(word.rfind('/') + 1); };
  if (command_line.empty()) return "a launcher";
  const auto first = name_of(command_line.front());
  constexpr std::array<std::string_view, 4> kInterpreters{"sh", "bash", "dash", "perl"};
  const bool is_interpreter =
      first.starts_with("python") ||
      std::find(kInterpreters.begin(), kInterpreters.end(), first) != kInterpreters.end();
  if (!is_interpreter) return first;
  for (std::size_t i = 1; i < command_line.size(); ++i) {
    const auto& word = command_line[i];
    if (word == "-m" && i + 1 < command_line.size()) return command_line[i + 1];
    if (word == "-c") break;
    if (!word.starts_with('-')) return name_of(word);
  }
  return first;
}

NestedRanks::NestedRanks(const EventLoop& loop, const RankProcesses& ranks,
                         std::function<void(std::string)> on_found)
    : ranks_(ranks), on_found_(std::move(on_found)), timer_(loop, [this] { on_timer(); }) {}

void NestedRanks::start() {
  if (ranks_.all().size() > 1) timer_.start(kWaits[looks_]);
}

void NestedRanks::on_timer() {
  ++looks_;
  if (auto warning = look(); !warning.empty()) return on_found_(std::move(warning));
  if (looks_ < kWaits.size()) timer_.start(kWaits[looks_]);
}

std::string NestedRanks::look() const {
  const auto processes = processes_below(::getpid());
  std::optional<NestedRank> first;
  std::size_t count = 0;
  int rank = 0;
  for (const auto& process : ranks_.all()) {
    if (!process.alive) continue;
    const auto nested =
        find_nested_rank(process.pid, descendants_of(process.pid, processes), variables_of);
    if (!nested) return {};
    if (count++ == 0) {
      first = nested;
      rank = process.rank;
    }
  }
  if (count < 2) return {};
  const auto launcher = program_in(parts_of(first->parent, "cmdline"));
  return fmt::format(
      "each of {} ranks has started ranks of its own (below rank {}, {} has started process {} "
      "with {}), so the job runs {} times: let hvdrun start the program, without {}",
      count, rank, launcher, first->pid, first->variables, count, launcher);
}

}  // namespace hvdrun
