#include "look/process_facts.hpp"

#include "common/file_content.hpp"
#include "look/control_group.hpp"
#include "look/system_calls.hpp"
#include "look/waiting.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <utility>
#include <vector>

#include <sys/syscall.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::size_t kLongestCommand = 2000;
constexpr const char* kYamaOff = "kernel.yama.ptrace_scope=0";
constexpr double kHardlyRuns = 0.03;  // of a processor

std::string task_file(pid_t tid, const std::string& name) {
  return "task/" + std::to_string(tid) + "/" + name;
}

SystemCallState read_call(pid_t pid, pid_t tid, const std::optional<ThreadStat>& stat,
                          const std::string& wait_channel) {
  const bool is_kernels = stat && stat->is_kernels;
  SystemCallState call = is_kernels ? SystemCallState() : read_system_call(pid, tid);
  call.number = resumed_call(call.number, wait_channel);
  call.awaits_fuse = awaits_fuse(wait_channel);
  call.awaits_page = call.awaits_fuse || awaits_page(wait_channel);
  call.hangs = (stat && stat->state == 'D') || call.awaits_fuse;
  return call;
}

ThreadLook read_thread(pid_t pid, pid_t tid, ThreadCalls& calls) {
  ThreadLook thread;
  thread.tid = tid;
  const auto stat = read_stat(pid, task_file(tid, "stat"));
  if (stat) {
    thread.name = stat->name;
    thread.state = stat->state;
    thread.cpu_seconds = stat->cpu_seconds;
  }
  thread.waiting_seconds = thread.state == 'R' ? std::nullopt : seconds_since_run(pid, tid);
  thread.wait_channel = read_proc(pid, task_file(tid, "wchan"));
  if (thread.wait_channel == "0") thread.wait_channel.clear();
  const auto call = read_call(pid, tid, stat, thread.wait_channel);
  if (call.known && call.number >= 0) thread.system_call = system_call_name(call.number);
  calls[tid] = call;
  return thread;
}

bool hardly_ran(const ThreadLook& thread) {
  const auto& movement = thread.movement;
  return movement && movement->seconds > 0 &&
         movement->cpu_seconds / movement->seconds < kHardlyRuns;
}

std::vector<pid_t> ids_of(const std::vector<ThreadLook>& threads) {
  std::vector<pid_t> ids;
  std::transform(threads.begin(), threads.end(), std::back_inserter(ids),
                 [](const ThreadLook& thread) { return thread.tid; });
  return ids;
}

std::uint64_t number_in(const std::map<std::string, std::string>& fields, const std::string& name) {
  const auto at = fields.find(name);
  return at == fields.end() ? 0 : std::strtoull(at->second.c_str(), nullptr, 10);
}

// Returns whether this process has CAP_SYS_PTRACE.
bool may_trace_all() {
  constexpr unsigned kSysPtrace = 19;
  const auto text = read_fields(::getpid(), "status")["CapEff"];
  return (std::strtoull(text.c_str(), nullptr, 16) >> kSysPtrace & 1U) != 0;
}

}  // namespace

bool read_facts(pid_t pid, ProcessLook& look, ThreadCalls& calls) {
  const auto stat = read_stat(pid);
  if (!stat) return false;
  look.pid = pid;
  look.name = stat->name;
  look.state = stat->state;
  look.parent = stat->parent;
  const auto status = read_fields(pid, "status");
  if (status.contains("Uid")) look.user = static_cast<unsigned>(number_in(status, "Uid"));
  look.swapped_kib = number_in(status, "VmSwap");
  look.traced_by = static_cast<pid_t>(number_in(status, "TracerPid"));
  if (look.traced_by != 0)
    if (const auto tracer = read_stat(look.traced_by)) look.tracer = tracer->name;
  look.frozen = ControlGroup(read_proc(pid, "cgroup")).is_frozen();
  for (const pid_t tid : threads_of(pid)) look.threads.push_back(read_thread(pid, tid, calls));
  for (auto& thread : look.threads)
    thread.switches =
        number_in(read_fields(pid, task_file(thread.tid, "status")), "voluntary_ctxt_switches") +
        number_in(read_fields(pid, task_file(thread.tid, "status")), "nonvoluntary_ctxt_switches");
  look.thread_count = look.threads.size();
  for (const pid_t child : children_of(pid))
    if (const auto seen = read_stat(child))
      look.children.push_back({child, seen->name, seen->state});
  return true;
}

void read_details(pid_t pid, const Memory& memory, const ThreadCalls& calls, ProcessLook& look) {
  look.command = read_proc(pid, "cmdline").substr(0, kLongestCommand);
  while (look.command.ends_with('\0')) look.command.pop_back();
  std::replace(look.command.begin(), look.command.end(), '\0', ' ');
  look.program = read_proc_link(pid, "exe");
  Descriptors descriptors(pid);
  const auto tids = ids_of(look.threads);
  for (auto& thread : look.threads) {
    const auto call = calls.find(thread.tid);
    if (call != calls.end() && call->second.known)
      thread.waits_for = describe_wait(pid, call->second, tids, memory, descriptors);
  }
}

void read_calls_again(pid_t pid, ThreadCalls& calls) {
  calls.clear();
  for (const pid_t tid : threads_of(pid))
    calls[tid] = read_call(pid, tid, read_stat(pid, task_file(tid, "stat")),
                           read_proc(pid, task_file(tid, "wchan")));
}

void read_woken_again(pid_t pid, const Memory& memory, ThreadCalls& calls, ProcessLook& look) {
  Descriptors descriptors(pid);
  for (auto& thread : look.threads) {
    if (thread.state != 'R' || !hardly_ran(thread)) continue;
    ThreadLook now = read_thread(pid, thread.tid, calls);
    if (now.state != 'S' && now.state != 'D') continue;
    const auto& call = calls.at(thread.tid);
    if (call.known)
      now.waits_for = describe_wait(pid, call, ids_of(look.threads), memory, descriptors);
    now.switches = thread.switches;
    now.movement = thread.movement;
    if (thread.tid == pid) look.state = now.state;
    thread = std::move(now);
  }
}

std::map<pid_t, Counters> read_counters(pid_t pid) {
  std::map<pid_t, Counters> counters;
  for (const pid_t tid : threads_of(pid)) {
    Counters& counter = counters[tid];
    std::istringstream words(read_proc(pid, task_file(tid, "schedstat")));
    double nanoseconds = 0;
    if (words >> nanoseconds) counter.cpu_seconds = nanoseconds / 1e9;
    if (words >> nanoseconds) counter.queued_seconds = nanoseconds / 1e9;
    const auto status = read_fields(pid, task_file(tid, "status"));
    counter.sleeps = number_in(status, "voluntary_ctxt_switches");
    counter.switches = counter.sleeps + number_in(status, "nonvoluntary_ctxt_switches");
  }
  return counters;
}

GroupCounters read_group_counters(pid_t pid) {
  GroupCounters counters;
  counters.throttled_seconds = ControlGroup(read_proc(pid, "cgroup")).throttled_seconds();
  if (const auto stat = read_stat(pid)) counters.major_faults = stat->major_faults;
  return counters;
}

std::string yama_words(const std::string& scope, bool has_right) {
  const char level = scope.empty() ? '0' : scope[0];
  const std::string is = std::string("kernel.yama.ptrace_scope is ") + level;
  if (level == '3') return is + ": no process may be looked at until this machine starts again";
  if (has_right) return {};
  if (level == '2') return is + ": only root may look at processes (sysctl " + kYamaOff + ")";
  if (level == '1')
    return is + ": only the one that started it may look at it (sysctl " + kYamaOff + ")";
  return {};
}

std::string why_refused(pid_t pid, const ProcessLook& look, const std::string& yama) {
  if (::geteuid() != 0 && look.user && *look.user != ::geteuid())
    return "it belongs to user " + std::to_string(*look.user) + ", and this one is " +
           std::to_string(::geteuid());
  if (const auto words = yama_words(content_of(yama), may_trace_all()); !words.empty())
    return words;
  if (read_proc_link(pid, "exe").empty())
    return "it has other rights than this one, or its program may not be read";
  return "the kernel does not permit ptrace here (no CAP_SYS_PTRACE, or a container's filter of "
         "system calls)";
}

}  // namespace hvdrun
