#include "look/look_at.hpp"

#include "look/memory.hpp"
#include "look/merge_stacks.hpp"
#include "look/native_stack.hpp"
#include "look/process_facts.hpp"
#include "look/process_snapshot.hpp"
#include "look/python_stack.hpp"
#include "look/system_calls.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <set>
#include <span>
#include <sstream>
#include <thread>
#include <utility>

namespace hvdrun {
namespace {

// A stopped thread runs a little when it is let go, before it waits again. On a busy machine it
// waits for a processor first.
constexpr std::chrono::milliseconds kSettle{10};
constexpr std::chrono::milliseconds kMostSettle{500};
// glibc's control block of a thread is at most so much after pthread_self().
constexpr Address kControlBlock = 4096;

class Look {
 public:
  Look(pid_t pid, const LookOptions& options) : pid_(pid), options_(options), memory_(pid) {}

  void run() {
    if (options_.stopped_too_long) settle();
    if (!read_facts(pid_, look_, calls_)) return;
    look_.asked = options_.asked != 0 ? options_.asked : pid_;
    if (look_.state == 'Z' && look_.threads.size() <= 1) return publish_finished();
    publish("reading its command line and its descriptors");
    read_details(pid_, memory_, calls_, look_);
    publish("reading its memory");
    if (!memory_.allowed()) {
      if (errno == ESRCH) return publish_finished();  // it has just ended, or is no program
      look_.problems.push_back("no stacks: " + why_refused(pid_, look_));
      if (options_.twice) watch();
      return publish_finished();
    }
    mappings_ = read_maps(pid_);
    if (mappings_.empty()) return publish_finished();
    auto python = PythonProcess::find(pid_, memory_, mappings_);
    if (!python)
      look_.problems.push_back("no Python stacks: " + python.error());
    else
      python_ = std::move(*python);
    if (python_) look_.python = python_->version();
    const auto code = python_ ? std::make_unique<PythonCode>(memory_, python_->layout()) : nullptr;
    Snapshot first;
    if (options_.twice) {
      first = snapshot();
      put_stacks(first, code.get(), nullptr, look_);
      publish("looking a second time");
      settle();
      watch();
    }
    const Snapshot last = snapshot();
    add_problems(last);
    put_stacks(last, code.get(), nullptr, look_);
    publish("looking up the names of native functions");
    auto native = NativeStacks::open(pid_, memory_, mappings_);
    if (!native) look_.problems.push_back(native.error());
    if (native) put_stacks(last, code.get(), native->get(), look_);
    if (options_.twice) compare(first, code.get(), native ? native->get() : nullptr);
    name_resumed_calls();
    publish_finished();
  }

 private:
  // The calls are read again: they say which threads must not be stopped now.
  Snapshot snapshot() {
    read_calls_again(pid_, calls_);
    const SnapshotOptions options{options_.stop, options_.depth, options_.stop_began};
    Snapshot taken =
        take_snapshot(pid_, memory_, mappings_, calls_, python_ ? &*python_ : nullptr, options);
    look_.pause_seconds = std::max(look_.pause_seconds, taken.pause);
    return taken;
  }

  // Waits until the threads that slept before the stop sleep again; all, if they are not known.
  void settle() const {
    const auto deadline = std::chrono::steady_clock::now() + kMostSettle;
    std::vector<pid_t> slept;
    for (const auto& thread : look_.threads)
      if (thread.state == 'S') slept.push_back(thread.tid);
    if (look_.threads.empty()) slept = threads_of(pid_);
    const auto runs = [this](pid_t tid) {
      const auto stat = read_stat(pid_, "task/" + std::to_string(tid) + "/stat");
      return stat && stat->state == 'R';
    };
    do {
      std::this_thread::sleep_for(kSettle);
    } while (std::any_of(slept.begin(), slept.end(), runs) &&
             std::chrono::steady_clock::now() < deadline);
  }

  // Says what moves while the process is not stopped.
  void watch() {
    const auto before = read_counters(pid_);
    const auto group_before = read_group_counters(pid_);
    const auto start = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(options_.interval);
    const auto after = read_counters(pid_);
    const auto group_after = read_group_counters(pid_);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (auto& thread : look_.threads) {
      const auto was = before.find(thread.tid);
      const auto is = after.find(thread.tid);
      if (was == before.end() || is == after.end()) continue;
      thread.movement = Movement{seconds,
                                 is->second.cpu_seconds - was->second.cpu_seconds,
                                 is->second.switches - was->second.switches,
                                 false,
                                 is->second.sleeps - was->second.sleeps,
                                 is->second.queued_seconds - was->second.queued_seconds};
      // It ran meanwhile. The clocks of processors differ: by a second, in a virtual machine.
      if (thread.movement->switches > 0 && thread.waiting_seconds)
        thread.waiting_seconds = std::min(*thread.waiting_seconds, seconds);
    }
    read_woken_again(pid_, memory_, calls_, look_);
    look_.swapped_in_per_second =
        static_cast<double>(group_after.major_faults - group_before.major_faults) / seconds;
    if (group_before.throttled_seconds && group_after.throttled_seconds)
      look_.throttled =
          (*group_after.throttled_seconds - *group_before.throttled_seconds) / seconds;
  }

  void add_problems(const Snapshot& taken) {
    const auto add = [this](const std::string& text) { look_.problems.push_back(text); };
    if (options_.stopped_too_long)
      add("it was stopped for 45 ms without an end, so it was read while it ran: native stacks may "
          "be missing or end early");
    const auto stat = taken.refused != 0 ? read_stat(pid_, "stat") : std::nullopt;
    if (taken.refused != 0 && (!stat || stat->state == 'Z' || stat->state == 'X'))
      add("it has ended meanwhile");
    else if (taken.refused == EPERM && look_.traced_by != 0)
      add("pid " + std::to_string(look_.traced_by) + " (" + look_.tracer +
          ") traces it, so it cannot be stopped: native stacks may end early");
    else if (taken.refused != 0)
      add("it could not be stopped (" + std::string(std::strerror(taken.refused)) +
          "): native stacks may end early");
    if (taken.cut)
      add("it would have been stopped for too long: stacks of some threads are missing");
  }

  // A relative sleep that a look has interrupted continues as restart_syscall(2). The function of
  // libc that the thread is in says which call it was. From glibc 2.41 on, two functions without a
  // name are called by it.
  void name_resumed_calls() {
    constexpr std::size_t kInner = 3;
    for (auto& thread : look_.threads) {
      if (thread.system_call != "restart_syscall") continue;
      for (const auto& frame :
           std::span(thread.stack).first(std::min(kInner, thread.stack.size()))) {
        auto name = std::string_view(frame.function);
        name.remove_prefix(std::min(name.find_first_not_of('_'), name.size()));
        if (!is_restarted(name)) continue;
        thread.system_call = name;
        break;
      }
    }
  }

  // Returns the thread of the snapshot that a thread of Python is; 0: unknown.
  pid_t thread_of(const PythonThread& python, const Snapshot& taken) {
    for (const auto& [tid, thread] : taken.threads) {
      const Address block = thread.registers ? thread.registers->thread : 0;
      if (block != 0 && python.id <= block && block - python.id < kControlBlock) return tid;
    }
    if (python.native_id == 0) return 0;
    // Python knows the id in its own namespace, which is the last one.
    for (const auto& [tid, thread] : taken.threads) {
      auto& own = own_ids_[tid];
      if (own == 0) {
        std::istringstream words(
            read_fields(pid_, "task/" + std::to_string(tid) + "/status")["NSpid"]);
        own = tid;
        for (pid_t id = 0; words >> id;) own = id;
      }
      if (own == python.native_id) return tid;
    }
    return 0;
  }

  std::map<pid_t, const PythonThread*> python_threads(const Snapshot& taken,
                                                      std::vector<const PythonThread*>& unknown) {
    std::map<pid_t, const PythonThread*> found;
    for (const auto& python : taken.python) {
      const pid_t tid = thread_of(python, taken);
      if (tid == 0 || !found.emplace(tid, &python).second) unknown.push_back(&python);
    }
    // What is left must belong together.
    if (unknown.size() == 1 && found.size() + 1 == taken.threads.size())
      for (const auto& [tid, thread] : taken.threads)
        if (!found.contains(tid)) {
          found[tid] = unknown[0];
          unknown.clear();
          break;
        }
    return found;
  }

  static std::vector<PythonStackFrame> frames_of(const PythonThread& thread, PythonCode& code) {
    std::vector<PythonStackFrame> frames;
    for (const auto& frame : thread.frames) {
      PythonPlace place = code.place_of(frame);
      LookFrame shown;
      shown.function = std::move(place.function);
      shown.file = std::move(place.file);
      shown.line = place.line;
      shown.is_python = true;
      frames.push_back({std::move(shown), frame.entry});
    }
    return frames;
  }

  // Puts the stacks of a snapshot into the look's threads.
  void put_stacks(const Snapshot& taken, PythonCode* code, NativeStacks* native,
                  ProcessLook& look) {
    std::vector<const PythonThread*> unknown;
    std::map<pid_t, const PythonThread*> pythons;
    if (code != nullptr) pythons = python_threads(taken, unknown);
    std::map<pid_t, NativeStack> stacks;
    if (native != nullptr) stacks = native->unwind(taken.threads, options_.depth);
    std::erase_if(look.threads, [](const ThreadLook& thread) { return thread.tid == 0; });
    for (auto& thread : look.threads) {
      const auto at = taken.threads.find(thread.tid);
      if (at == taken.threads.end()) continue;
      const auto python = pythons.find(thread.tid);
      const auto frames = python == pythons.end() ? std::vector<PythonStackFrame>()
                                                  : frames_of(*python->second, *code);
      auto merged = merge_stacks(frames, stacks[thread.tid], python_ ? python_->file() : "");
      thread.stack = std::move(merged.frames);
      thread.merged = merged.merged;
      thread.holds_gil = python != pythons.end() && python->second->holds_gil;
      thread.problem = problem_of(at->second, native != nullptr);
      if (thread.problem.empty() && python != pythons.end() && !python->second->complete)
        thread.problem = frames.size() >= options_.depth
                             ? "more Python frames are left out (--depth)"
                             : "the rest of its Python frames cannot be read";
    }
    for (const auto* python : unknown) {
      if (python->frames.empty()) continue;
      ThreadLook thread;
      thread.name = "?";
      for (auto& frame : frames_of(*python, *code)) thread.stack.push_back(std::move(frame.frame));
      thread.problem = "which thread runs this is not known";
      look.threads.push_back(std::move(thread));
    }
  }

  std::string problem_of(const ThreadSnapshot& thread, bool has_native) const {
    if (!has_native) return {};
    if (thread.hangs)
      return "it did not stop in time: its native stack may be missing or end early";
    if (thread.ran) return "no native stack: it ran while it was read";
    if (!thread.registers && !options_.stop) return "no native stack: it runs, and was not stopped";
    return {};
  }

  void compare(const Snapshot& first, PythonCode* code, NativeStacks* native) {
    ProcessLook before;
    before.threads = look_.threads;
    put_stacks(first, code, native, before);
    for (auto& thread : look_.threads) {
      const auto was =
          std::find_if(before.threads.begin(), before.threads.end(),
                       [&thread](const ThreadLook& other) { return other.tid == thread.tid; });
      if (thread.movement && was != before.threads.end())
        thread.movement->frame_moved = was->stack != thread.stack;
    }
  }

  void publish(const std::string& next) {
    look_.unfinished = next;
    options_.publish(look_);
    look_.unfinished.clear();
  }

  void publish_finished() { options_.publish(look_); }

  pid_t pid_;
  const LookOptions& options_;
  Memory memory_;
  ProcessLook look_;
  ThreadCalls calls_;
  std::vector<Mapping> mappings_;
  std::optional<PythonProcess> python_;
  std::map<pid_t, pid_t> own_ids_;
};

}  // namespace

bool is_system_header(std::string_view file) {
  const auto has = [file](std::string_view part) { return file.find(part) != file.npos; };
  return file.starts_with("/usr/include/") || file.starts_with("/usr/lib/") ||
         has("/include/c++/") || has("/lib/gcc/");
}

std::string state_words(char state) {
  switch (state) {
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    case 'D':
      return "hanging in the kernel";
    case 'T':
      return "stopped by a signal";
    case 't':
      return "stopped by a debugger";
    case 'Z':
      return "ended, and not reaped by its parent";
    case 'I':
      return "idle in the kernel";
    case 'X':
      return "dead";
    default:
      return "in an unknown state";
  }
}

void look_at(pid_t pid, const LookOptions& options) {
  Look(pid, options).run();
}

}  // namespace hvdrun
