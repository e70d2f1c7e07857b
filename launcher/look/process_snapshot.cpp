#include "look/process_snapshot.hpp"

#include "look/stop.hpp"
#include "look/system_calls.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include <pthread.h>
#include <sched.h>

namespace hvdrun {
namespace {

using Clock = std::chrono::steady_clock;

// A process is stopped for at most 50 ms. The rest of that time is for what the scheduler does.
constexpr std::chrono::milliseconds kStopLimit{25};
constexpr std::chrono::milliseconds kReadLimit{15};
constexpr std::size_t kMostStack = 256U << 10U;
constexpr std::size_t kLeastStack = 16U << 10U;
constexpr std::size_t kMostStacks = 12U << 20U;  // of all threads together
constexpr Address kBelowStack = 128;             // a function may use so much below its stack

std::string switches(pid_t pid, pid_t tid) {
  auto fields = read_fields(pid, "task/" + std::to_string(tid) + "/status");
  return fields["voluntary_ctxt_switches"] + " " + fields["nonvoluntary_ctxt_switches"];
}

// Returns where the stack that an address lies in ends; 0: in none.
Address stack_end(const std::vector<Mapping>& mappings, Address at) {
  const auto after = std::upper_bound(
      mappings.begin(), mappings.end(), at,
      [](Address address, const Mapping& mapping) { return address < mapping.end; });
  return after != mappings.end() && after->start <= at ? after->end : 0;
}

class Reader {
 public:
  Reader(pid_t pid, const Memory& memory, const std::vector<Mapping>& mappings,
         const std::map<pid_t, SystemCallState>& calls, const PythonProcess* python,
         const SnapshotOptions& options)
      : pid_(pid),
        memory_(memory),
        mappings_(mappings),
        calls_(calls),
        python_(python),
        options_(options),
        most_stack_(std::clamp(kMostStacks / std::max<std::size_t>(1, calls.size()), kLeastStack,
                               kMostStack)) {}

  Snapshot read() {
    StopOrder order;
    std::map<pid_t, std::string> before;
    for (const auto& [tid, call] : calls_) {
      const bool fails = ends_with_eintr(call.number);
      if (call.running) order.running.insert(tid);
      if (fails) order.last.insert(tid);
      const bool may_stop = (can_resume_system_calls() || !fails) && !call.awaits_fuse;
      if (options_.stop && !may_move_less(call.number, call.arguments) && may_stop) continue;
      order.spared.insert(tid);
      before[tid] = switches(pid_, tid);
    }
    Stop stop(pid_, options_.began);
    if (options_.stop) snapshot_.refused = stop.begin(order, kStopLimit);
    const auto deadline = Clock::now() + kReadLimit;
    take_registers(stop, before);
    if (python_ != nullptr) snapshot_.python = python_->threads(options_.depth, deadline);
    for (auto& [tid, thread] : snapshot_.threads) {
      if (Clock::now() > deadline) {
        snapshot_.cut = true;
        break;
      }
      copy_stack(thread);
    }
    stop.end([&](pid_t tid, const Registers& registers) {
      auto& thread = snapshot_.threads[tid];
      thread.registers = registers;
      thread.hangs = false;
      before.erase(tid);
      copy_stack(thread);
    });
    snapshot_.pause = stop.pause();
    for (const auto& [tid, count] : before) {
      auto& thread = snapshot_.threads[tid];
      thread.ran = switches(pid_, tid) != count;
      if (!thread.ran) continue;
      thread.registers.reset();
      thread.hangs = false;  // it ran on, or has ended
    }
    return std::move(snapshot_);
  }

 private:
  void take_registers(const Stop& stop, std::map<pid_t, std::string>& before) {
    for (const auto& [tid, registers] : stop.threads())
      snapshot_.threads[tid].registers = registers;
    for (const auto& [tid, call] : calls_) {
      auto& thread = snapshot_.threads[tid];
      if (thread.registers) continue;
      thread.hangs = options_.stop && snapshot_.refused == 0 && !before.contains(tid);
      if (call.at == 0) continue;  // it runs
      if (!before.contains(tid)) before[tid] = switches(pid_, tid);
      thread.registers = registers_of_waiting(call.at, call.stack);
    }
  }

  void copy_stack(ThreadSnapshot& thread) const {
    if (!thread.registers) return;
    const Address start = thread.registers->stack - kBelowStack;
    const Address end = stack_end(mappings_, thread.registers->stack);
    if (end <= start) return;
    thread.stack_start = start;
    thread.stack.resize(std::min<std::size_t>(end - start, most_stack_));
    thread.stack.resize(memory_.read_some(start, thread.stack.data(), thread.stack.size()));
  }

  pid_t pid_;
  const Memory& memory_;
  const std::vector<Mapping>& mappings_;
  const std::map<pid_t, SystemCallState>& calls_;
  const PythonProcess* python_;
  const SnapshotOptions& options_;
  std::size_t most_stack_;
  Snapshot snapshot_;
};

}  // namespace

Snapshot take_snapshot(pid_t pid, const Memory& memory, const std::vector<Mapping>& mappings,
                       const std::map<pid_t, SystemCallState>& calls, const PythonProcess* python,
                       const SnapshotOptions& options) {
  Snapshot snapshot;
  std::thread tracer([&] {
    // The process waits for this thread. Only root may give it precedence.
    const sched_param first{1};
    ::pthread_setschedparam(::pthread_self(), SCHED_FIFO, &first);
    snapshot = Reader(pid, memory, mappings, calls, python, options).read();
  });
  tracer.join();
  return snapshot;
}

}  // namespace hvdrun
