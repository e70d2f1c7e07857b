#include "agent/monitors.hpp"

#include "agent/process_activity.hpp"
#include "agent/process_tree.hpp"
#include "resources/nvml_watch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <unistd.h>

namespace hvdrun {
namespace {

// A job that is shorter does not pay for NVML's start.
constexpr std::chrono::seconds kInterval{1};
// Nor does one that is shorter than this for a look at its processes.
constexpr std::chrono::milliseconds kLeastForALook{250};

std::set<int> ports_of_ranks(const LaunchMessage& job, const std::vector<HeldPort>& held) {
  std::set<int> ports;
  for (const auto& port : held) ports.insert(port.number);
  for (const auto& [name, value] : job.ranks.front().environment)
    if (name == "MASTER_PORT") ports.insert(std::atoi(value.c_str()));
  return ports;
}

bool has_tf_config(const LaunchMessage& job) {
  const auto& own = job.ranks.front().environment;
  const auto& all = job.environment;
  return std::any_of(own.begin(), own.end(),
                     [](const auto& entry) { return entry.first == "TF_CONFIG"; }) ||
         std::any_of(all.begin(), all.end(),
                     [](const auto& entry) { return entry.starts_with("TF_CONFIG="); });
}

// When to look next, for ranks that have run for so many seconds.
std::chrono::milliseconds interval_after(double seconds) {
  using std::chrono::milliseconds;
  return std::clamp(milliseconds(static_cast<std::int64_t>(seconds * 250)), milliseconds(1000),
                    milliseconds(10000));
}

// Lines of /proc/self/cgroup: "0::/a/b" for v2, "4:memory:/a/b" for v1's memory controller.
std::filesystem::path find_counter() {
  std::ifstream groups("/proc/self/cgroup");
  std::filesystem::path found;
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    std::filesystem::path file;
    if (controllers == "memory")
      file = "/sys/fs/cgroup/memory" + group + "/memory.oom_control";
    else if (controllers.empty())
      file = "/sys/fs/cgroup" + group + "/memory.events";
    std::error_code ignored;
    if (!file.empty() && std::filesystem::exists(file, ignored)) found = file;
  }
  return found;
}

RankState state_of(const RankStatus& status) {
  RankState state;
  state.step = status.step;
  state.epoch = status.epoch;
  state.collective = status.blocking.name;
  state.collective_seconds = status.blocking.seconds;
  state.background = status.background.name;
  state.background_seconds = status.background.seconds;
  state.background_missing = status.background_missing;
  return state;
}

}  // namespace

struct GpuWatch::Shared {
  std::mutex mutex;
  std::vector<GpuUse> uses;
};

void GpuWatch::start(std::vector<std::string> uuids) {
  if (uuids.empty()) return;
  shared_ = std::make_shared<Shared>();
  const auto look = [shared = shared_, uuids = std::move(uuids)] {
    std::this_thread::sleep_for(kInterval);
    const auto watch = NvmlWatch::open(uuids);
    if (watch == nullptr) return;
    for (;;) {
      watch->look();
      {
        const std::lock_guard lock(shared->mutex);
        shared->uses = watch->uses();
      }
      std::this_thread::sleep_for(kInterval);
    }
  };
  try {
    std::thread(look).detach();
  } catch (const std::system_error&) {  // no more threads: the job matters more
    shared_.reset();
  }
}

std::vector<GpuUse> GpuWatch::uses() const {
  if (shared_ == nullptr) return {};
  const std::lock_guard lock(shared_->mutex);
  return shared_->uses;
}

bool GpuWatch::one_used_all(const std::vector<RankProcess>& ranks) const {
  const auto gpus = uses();
  return gpus.size() > 1 && std::any_of(ranks.begin(), ranks.end(), [&](const RankProcess& rank) {
           return std::all_of(gpus.begin(), gpus.end(),
                              [&](const GpuUse& gpu) { return gpu.pids.contains(rank.pid); });
         });
}

ConnectionWatch::ConnectionWatch(const EventLoop& loop, std::function<bool()> joined)
    : joined_(std::move(joined)), timer_(loop, [this] {
        look();
        if (!joined_()) timer_.start(interval_after(seconds_since(begun_)));
      }) {}

void ConnectionWatch::start(const LaunchMessage& job, const std::vector<HeldPort>& held) {
  if (job.size < 2) return;
  ports_ = ports_of_ranks(job, held);
  earlier_ = connections_at(ports_);
  has_tf_config_ = has_tf_config(job);
  begun_ = std::chrono::steady_clock::now();
  timer_.start(interval_after(0));
}

void ConnectionWatch::look() {
  for (const auto& process : descendants_of(::getpid(), all_processes())) {
    seen_ = seen_ || has_tcp_socket(process.pid);
    saw_tensorflow_ = saw_tensorflow_ || uses_tensorflow(process.pid);
  }
  look_at_ports();
}

void ConnectionWatch::look_at_ports() {
  const auto now = connections_at(ports_);
  seen_ = seen_ || !std::includes(earlier_.begin(), earlier_.end(), now.begin(), now.end());
}

void ConnectionWatch::rank_ended() {
  if (std::exchange(rank_has_ended_, true) || !timer_.pending() || joined_()) return;
  if (std::chrono::steady_clock::now() - begun_ >= kLeastForALook) look();
}

void ConnectionWatch::finish() {
  if (!timer_.pending()) return;
  timer_.cancel();
  if (!joined_()) look_at_ports();
}

OomWatch::OomWatch() : OomWatch(find_counter()) {}

OomWatch::OomWatch(std::filesystem::path counter_file) : file_(std::move(counter_file)) {
  seen_ = count().value_or(0);
}

std::optional<std::uint64_t> OomWatch::count() const {
  if (file_.empty()) return std::nullopt;
  std::ifstream file(file_);
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value)
    if (name == "oom_kill") return value;
  return std::nullopt;
}

bool OomWatch::happened() {
  const auto now = count();
  if (!now || *now <= seen_) return false;
  ++seen_;
  return true;
}

using std::chrono::milliseconds;

milliseconds StallWatch::interval() const {
  return std::clamp(limit_ / 10, milliseconds(10), milliseconds(1000));
}

void StallWatch::look(int rank, const RankStatus& status) {
  look(rank, false, status.blocking);
  look(rank, true, status.background);
}

void StallWatch::look(int rank, bool background, const CollectiveStatus& now) {
  const auto told = told_.find({rank, background});
  if (told != told_.end() && told->second.start_ns != now.start_ns) {
    const bool completed = now.completed > told->second.completed;
    changes_.over.push_back({rank, std::move(told->second.name), completed});
    told_.erase(told);
  } else if (told != told_.end()) {
    return;
  }
  // The start has a time limit of its own, and its error names who is missing.
  if (now.name == "hvd_init") return;
  if (now.name.empty() || now.seconds < std::chrono::duration<double>(limit_).count()) return;
  changes_.begun.push_back({rank, now.name, false});
  told_[{rank, background}] = now;
}

StallsMessage StallWatch::take() {
  return std::exchange(changes_, {});
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
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
                             const RankProcesses::Exit& exit) {
  const RankStatus status = pages.read(process.index);
  ExitedMessage message;
  message.rank = process.rank;
  message.wait_status = process.wait_status;
  message.before_stop = process.died_before_stop;
  message.seconds = seconds_since(process.started);
  message.user_seconds = exit.user_seconds;
  message.system_seconds = exit.system_seconds;
  message.peak_memory_bytes = exit.peak_memory_bytes;
  message.last_error = status.last_error;
  message.in_collective = status.blocking.name;
  message.counters = within(message.seconds, pages.counters(process.index));
  message.failure = pages.failure(process.index);
  return message;
}

StatesMessage states_of(const StatusPages& pages, const std::vector<RankProcess>& ranks,
                        StatesPurpose purpose) {
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
    message.ranks.push_back(std::move(state));
  }
  return message;
}

}  // namespace hvdrun
