#include "agent/host_watch.hpp"

#include "agent/gpu_ranks.hpp"
#include "agent/process_tree.hpp"
#include "common/file_content.hpp"

#include <chrono>
#include <csignal>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// Between two looks, and before the first: opening the vendor's library is too expensive for a
// shorter job.
constexpr std::chrono::seconds kInterval{1};

// Finds the file with the counter from the lines of /proc/self/cgroup: "0::/a/b" for v2,
// "4:memory:/a/b" for v1's memory controller. In a container such a group may be mounted as the
// root. Returns the host's counter if there is none.
std::filesystem::path find_counter() {
  std::istringstream groups(content_of("/proc/self/cgroup"));
  std::filesystem::path found = "/proc/vmstat";
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers != "memory" && !controllers.empty()) continue;
    const bool is_v2 = controllers.empty();
    const std::string root = is_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const std::string name = is_v2 ? "/memory.events" : "/memory.oom_control";
    std::error_code ignored;
    for (const auto& file : {root + group + name, root + name}) {
      if (!std::filesystem::exists(file, ignored)) continue;
      found = file;
      break;
    }
  }
  return found;
}

}  // namespace

struct GpuRecorder::Shared {
  std::optional<int> find_rank(int pid, pid_t agent) {
    const std::lock_guard lock(mutex);
    const auto root = root_of(pid, agent, roots);
    return root ? std::optional(rank_of.at(*root)) : std::nullopt;
  }

  std::mutex mutex;
  GpuRecord record;
  std::map<pid_t, int> rank_of;
  std::set<pid_t> roots;
};

void GpuRecorder::start(const std::string& vendor, std::vector<std::string> gpus,
                        const std::vector<RankProcess>& ranks, const GpuVendors& vendors) {
  const auto* row = find_gpu_vendor(vendor, vendors);
  if (gpus.empty() || row == nullptr) return;
  shared_ = std::make_shared<Shared>();
  for (const auto& rank : ranks) add(rank);
  const auto find_rank = [shared = shared_, agent = ::getpid()](int pid) {
    return shared->find_rank(pid, agent);
  };
  const auto look = [shared = shared_, open = row->watch, gpus = std::move(gpus), find_rank] {
    std::this_thread::sleep_for(kInterval);
    const auto watch = open(gpus);
    if (watch == nullptr) return;
    GpuRanks on_gpus(find_rank);
    for (;;) {
      watch->look();
      on_gpus.add(watch->processes());
      {
        const std::lock_guard lock(shared->mutex);
        shared->record = {watch->uses(), on_gpus.peak_memory(), on_gpus.one_used_all()};
      }
      std::this_thread::sleep_for(kInterval);
    }
  };
  try {
    std::thread(look).detach();
  } catch (const std::system_error&) {  // no more threads: the job goes before
    shared_.reset();
  }
}

void GpuRecorder::add(const RankProcess& rank) {
  if (shared_ == nullptr) return;
  const std::lock_guard lock(shared_->mutex);
  shared_->rank_of[rank.pid] = rank.rank;
  shared_->roots.insert(rank.pid);
}

GpuRecord GpuRecorder::record() const {
  if (shared_ == nullptr) return {};
  const std::lock_guard lock(shared_->mutex);
  return shared_->record;
}

OomWatch::OomWatch() : OomWatch(find_counter()) {}

OomWatch::OomWatch(std::filesystem::path counter_file) : file_(std::move(counter_file)) {
  seen_ = count().value_or(0);
}

std::optional<std::uint64_t> OomWatch::count() const {
  if (file_.empty()) return std::nullopt;
  std::istringstream file(content_of(file_));
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value)
    if (name == "oom_kill") return value;
  return std::nullopt;
}

bool OomWatch::may_explain(int wait_status) {
  if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL) return happened();
  return wait_status != 0 && has_more();
}

bool OomWatch::happened() {
  if (!has_more()) return false;
  ++seen_;
  return true;
}

}  // namespace hvdrun
