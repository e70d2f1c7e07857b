#include "agent/rank_messages.hpp"

#include "agent/process_activity.hpp"
#include "agent/process_tree.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>

#include <sys/types.h>

namespace hvdrun {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

RankState state_of(const RankStatus& status) {
  RankState state;
  state.step = status.step;
  state.epoch = status.epoch;
  state.collective = status.blocking.name;
  state.collective_seconds = status.blocking.seconds;
  state.calls = status.blocking.completed;
  state.background = status.background.name;
  state.background_seconds = status.background.seconds;
  state.background_missing = status.background_missing;
  return state;
}

}  // namespace

RankStatus status_of(const StatusPages& pages, const RankProcess& process) {
  RankStatus status = pages.read(process.index);
  for (CollectiveStatus* const collective : {&status.blocking, &status.background}) {
    collective->seconds = std::min(collective->seconds, seconds_since(process.started));
    if (process.alive) continue;
    collective->name.clear();
    collective->start_ns = 0;
  }
  return status;
}

ExitedMessage exited_message(const StatusPages& pages, const RankProcess& process,
                             const RankProcesses::Exit& exit, std::uint64_t input_taken) {
  const RankStatus status = pages.read(process.index);
  ExitedMessage message;
  message.rank = process.rank;
  message.wait_status = process.wait_status;
  message.before_stop = process.died_before_stop;
  message.seconds = seconds_since(process.started);
  message.user_seconds = exit.user_seconds;
  message.system_seconds = exit.system_seconds;
  message.peak_memory_bytes = exit.peak_memory_bytes;
  message.input_taken = input_taken;
  message.last_error = status.last_error;
  message.in_collective = status.blocking.name;
  message.counters = within(message.seconds, pages.counters(process.index));
  message.failure = pages.failure(process.index);
  message.agent_clock = seconds_since({});
  return message;
}

StatesMessage states_of(const StatusPages& pages, const std::vector<RankProcess>& ranks,
                        StatesPurpose purpose) {
  const auto processes =
      purpose == StatesPurpose::quiet ? all_processes() : std::vector<ProcessInfo>();
  std::map<pid_t, char> kernel_states;
  if (purpose == StatesPurpose::table)
    for (const auto& process : all_processes()) kernel_states[process.pid] = process.state;
  StatesMessage message;
  message.purpose = purpose;
  for (const RankProcess& process : ranks) {
    RankState state = state_of(status_of(pages, process));
    state.rank = process.rank;
    state.pid = process.pid;
    state.state = process.alive ? std::string(1, kernel_states[process.pid]) : "ended";
    if (purpose == StatesPurpose::stop && process.alive) {
      state.activity = activity_of(process.pid);
      state.activity.seconds = seconds_since(process.started);
    }
    if (purpose == StatesPurpose::quiet && process.alive) {
      state.activity.cpu_seconds = cpu_seconds_of(process.pid);
      for (const auto& child : descendants_of(process.pid, processes))
        state.activity.cpu_seconds += cpu_seconds_of(child.pid);
    }
    message.ranks.push_back(std::move(state));
  }
  return message;
}

}  // namespace hvdrun
