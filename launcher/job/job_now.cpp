#include "job/job_now.hpp"

#include "job/launch.hpp"
#include "job/rank_states.hpp"
#include "job/stalls.hpp"
#include "report/first_failure.hpp"
#include "report/report_text.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace hvdrun {
namespace {

std::string host_state(const AgentState& agent, bool has_answered) {
  if (agent.life.done()) return "done";
  if (agent.life.gone() || agent.life.link_closed()) return "lost";
  if (!agent.life.has(AgentPhase::running)) return "starting";
  return has_answered ? "running" : "silent";
}

std::vector<HostGpuNow> gpus_of(const AnswerMessage& answer, const Host& host) {
  std::vector<HostGpuNow> gpus;
  for (auto& use : with_device_names(answer.gpus, host)) {
    HostGpuNow gpu{use.uuid, use.device,      use.now.busy_percent, use.now.memory_bytes,
                   0,        use.now.celsius, use.now.watts};
    if (host.inventory)
      for (const auto& known : host.inventory->gpus)
        if (known.uuid == use.uuid) gpu.memory_in_all = known.memory_bytes;
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

// Returns which of the host's GPUs is the rank's.
std::optional<int> gpu_of(const RankReport& rank, const Host& host, const HostNow& now) {
  const auto index = rank.placement.gpu;
  if (!index || !host.inventory || static_cast<std::size_t>(*index) >= host.inventory->gpus.size())
    return std::nullopt;
  const auto& uuid = host.inventory->gpus[static_cast<std::size_t>(*index)].uuid;
  for (std::size_t i = 0; i < now.gpus.size(); ++i)
    if (now.gpus[i].uuid == uuid) return static_cast<int>(i);
  return std::nullopt;
}

void add_state(const RankState& state, RankNow& rank) {
  rank.state = state_words(state.state);
  rank.step = state.step;
  rank.collective = state.collective.empty() ? state.background : state.collective;
  rank.in_collective_seconds =
      state.collective.empty() ? state.background_seconds : state.collective_seconds;
  if (!state.use) return;
  const auto& use = *state.use;
  rank.epoch = use.epoch;
  rank.epochs = use.epochs_in_all;
  rank.steps = use.steps_in_all;
  rank.samples = use.samples;
  rank.samples_per_second = use.samples_per_second;
  rank.since_progress = use.since_progress;
  rank.loss = use.loss;
  // A collective is counted when it is over. Until then a rank that shows it waits in it.
  rank.collective_seconds = use.collective_seconds + state.collective_seconds;
  rank.waiting_seconds = use.waiting_seconds + state.collective_seconds;
  rank.cpu_seconds = use.cpu_seconds;
  rank.memory_bytes = use.memory_bytes;
  rank.processes = use.processes;
}

void add_end(const RankReport& report, RankNow& rank) {
  rank.state = "ended";
  rank.end = describe_end(report);
  rank.succeeded = succeeded(report);
  rank.step = report.counters.steps;
  rank.samples = report.counters.samples;
  rank.epoch = report.counters.epoch;
  rank.collective_seconds = report.counters.collective_seconds;
  rank.waiting_seconds = report.counters.waiting_seconds;
  rank.cpu_seconds = report.user_seconds + report.system_seconds;
  rank.collective.clear();
  rank.in_collective_seconds = 0;
}

}  // namespace

void describe_attempt(const Attempt& attempt, const Answers& answers, JobNow& now) {
  const auto& parts = attempt.parts();
  const auto& reports = parts.table.ranks();
  const auto& placed = parts.placement().hosts;
  for (std::size_t i = 0; i < placed.size(); ++i) {
    auto& host = now.hosts.emplace_back();
    host.host = placed[i].host;
    for (const auto& rank : placed[i].ranks) host.ranks.push_back(rank.rank);
    const auto answer = answers.by_host.find(i);
    const bool has_answered = answer != answers.by_host.end();
    host.state = "starting";
    if (i < parts.agents->size()) {
      const auto& agent = parts.agents->on_host(i);
      host.state = host_state(agent, has_answered);
      if (has_answered) host.gpus = gpus_of(answer->second, agent.host);
    }
    if (has_answered) host.clock = answer->second.clock;
  }
  for (const auto& report : reports) {
    auto& rank = now.ranks.emplace_back();
    rank.rank = report.placement.rank;
    const auto host = parts.table.host_index(rank.rank);
    rank.host = static_cast<int>(host);
    rank.pid = report.pid;
    rank.role = attempt.role_of(rank.rank);
    rank.state = rank.role == "lost" ? "lost" : report.pid == 0 ? "starting" : "unknown";
    const bool is_later = rank.rank >= parts.placement().size;
    if (is_later && host < now.hosts.size()) now.hosts[host].ranks.push_back(rank.rank);
    if (host < now.hosts.size() && host < parts.agents->size())
      rank.gpu = gpu_of(report, parts.agents->on_host(host).host, now.hosts[host]);
  }
  auto states = states_in(answers, parts.table);
  for (const auto& state : states) {
    auto& rank = now.ranks[static_cast<std::size_t>(state.rank)];
    add_state(state, rank);
    if (rank.role == "spare") rank.state += ", not in the job yet";
  }
  for (const auto& report : reports)
    if (report.exited) add_end(report, now.ranks[static_cast<std::size_t>(report.placement.rank)]);
  const auto is_unknown = [](const RankNow& rank) {
    return rank.role == "member" && (rank.state == "starting" || rank.state == "unknown");
  };
  if (std::ranges::any_of(now.ranks, is_unknown)) return;  // what is missing may not be the cause
  for (auto& wait : find_waits(attempt.members_among(std::move(states)), reports))
    now.waits.push_back({std::move(wait.text), std::move(wait.collective), wait.seconds,
                         std::move(wait.waiting), std::move(wait.missing)});
}

}  // namespace hvdrun
