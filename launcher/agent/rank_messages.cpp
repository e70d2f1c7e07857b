#include "agent/rank_messages.hpp"

#include "agent/process_activity.hpp"
#include "agent/process_tree.hpp"
#include "agent/process_use.hpp"
#include "common/clock.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <string>
#include <utility>

#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

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

std::vector<pid_t> pids_of(const std::vector<RankProcess>& ranks) {
  std::vector<pid_t> pids;
  for (const auto& rank : ranks)
    if (rank.alive) pids.push_back(rank.pid);
  return pids;
}

RankUse use_of(const StatusPages& pages, const RankProcess& process,
               const std::map<pid_t, ProcessUse>& uses) {
  const auto progress = pages.progress(process.index);
  const double lifetime = seconds_since(process.started);
  const auto counters = within(lifetime, pages.counters(process.index));
  RankUse use;
  use.epoch = progress.epoch;
  use.epochs_in_all = progress.epochs;
  use.steps_in_all = progress.steps;
  use.samples = progress.samples;
  use.samples_per_second = counters.samples_per_second;
  if (const auto now = common::monotonic_ns(); progress.reports() && progress.progress_ns != 0)
    use.since_progress =
        now > progress.progress_ns ? static_cast<double>(now - progress.progress_ns) / 1e9 : 0;
  use.collective_seconds = counters.collective_seconds;
  use.waiting_seconds = counters.waiting_seconds;
  use.loss = progress.loss;
  if (const auto found = uses.find(process.pid); process.alive && found != uses.end()) {
    use.processes = found->second.processes;
    use.cpu_seconds = found->second.cpu_seconds;
    use.memory_bytes = found->second.memory_bytes;
  }
  return use;
}

// Returns whether the process touched shared memory for which there is no room, as far as that can
// be known after its end.
bool lacked_shared_memory(int wait_status) {
  struct statvfs room {};
  return WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGBUS &&
         ::statvfs("/dev/shm", &room) == 0 && room.f_bavail < room.f_blocks / 64;
}

}  // namespace

double agent_clock() {
  return seconds_since({});
}

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
  message.dev_shm_is_full = lacked_shared_memory(process.wait_status);
  message.seconds = seconds_since(process.started);
  message.user_seconds = exit.user_seconds;
  message.system_seconds = exit.system_seconds;
  message.peak_memory_bytes = exit.peak_memory_bytes;
  message.input_taken = input_taken;
  message.last_error = status.last_error;
  message.error_of_peer = status.error_of_peer;
  message.in_collective = status.blocking.name;
  message.counters = within(message.seconds, pages.counters(process.index));
  message.failure = pages.failure(process.index);
  message.agent_clock = agent_clock();
  return message;
}

AnswerMessage answer_of(const QuestionMessage& question, const StatusPages& pages,
                        const std::vector<RankProcess>& ranks, const GpuRecorder* gpus) {
  const auto wanted = question.wanted;
  const bool all_use = wanted == Wanted::use;
  const bool is_time = wanted == Wanted::processor_time;
  std::vector<ProcessInfo> processes;
  if (wanted != Wanted::pages && wanted != Wanted::at_stop) processes = processes_below(::getpid());
  std::map<pid_t, char> kernel_states;
  for (const auto& process : processes) kernel_states[process.pid] = process.state;
  std::map<pid_t, ProcessUse> uses;
  if (all_use || is_time) uses = use_by_root(pids_of(ranks), processes);
  AnswerMessage message;
  message.number = question.number;
  message.clock = agent_clock();
  if (all_use && gpus != nullptr) message.gpus = gpus->record().gpus;
  for (const RankProcess& process : ranks) {
    RankState state = state_of(status_of(pages, process));
    state.rank = process.rank;
    state.pid = process.pid;
    state.state = process.alive ? std::string(1, kernel_states[process.pid]) : "ended";
    if (wanted == Wanted::at_stop && process.alive) {
      state.activity = activity_of(process.pid);
      state.activity.seconds = seconds_since(process.started);
    }
    if (is_time && process.alive) state.activity.cpu_seconds = uses[process.pid].cpu_seconds;
    if (all_use) state.use = use_of(pages, process, uses);
    message.ranks.push_back(std::move(state));
  }
  return message;
}

}  // namespace hvdrun
