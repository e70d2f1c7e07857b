#include "hang/rank_place.hpp"

#include "common/text.hpp"
#include "hang/collective_calls.hpp"
#include "hang/gpu_wait.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// A thread that uses more of a processor than this computes.
constexpr double kComputes = 0.3;
constexpr double kMoves = 0.03;
constexpr double kNaps = 8;  // a second
constexpr std::size_t kMostChildren = 3;
constexpr double kShownWait = 1;  // seconds; a shorter one is not worth a word
constexpr double kThrottled = 0.05;
constexpr double kSwapsPerSecond = 20;

const ThreadLook* thread_with(const ProcessLook& look, pid_t tid) {
  const auto at = std::ranges::find(look.threads, tid, &ThreadLook::tid);
  return at == look.threads.end() ? nullptr : &*at;
}

double processor_share(const ThreadLook& thread) {
  return thread.movement && thread.movement->seconds > 0
             ? thread.movement->cpu_seconds / thread.movement->seconds
             : 0;
}

std::optional<std::size_t> users_frame(const ThreadLook& thread, const std::string& program,
                                       std::size_t from = 0) {
  // With Python, a frame in Python says more than one in a library of the user.
  const bool has_python = std::ranges::any_of(thread.stack, [&](const LookFrame& frame) {
    return frame.is_python && is_users(frame, program);
  });
  for (std::size_t index = from; index < thread.stack.size(); ++index) {
    const auto& frame = thread.stack[index];
    if ((!has_python || frame.is_python) && is_users(frame, program)) return index;
  }
  return std::nullopt;
}

bool begins_with(const std::string& function, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(names,
                             [&](std::string_view name) { return function.starts_with(name); });
}

// Whether the thread only waits for the end of other threads.
bool joins(const ThreadLook& thread) {
  return std::ranges::any_of(thread.stack, [](const LookFrame& frame) {
    if (frame.is_python)
      return frame.file.ends_with("/threading.py") &&
             (frame.function.ends_with("join") || frame.function.ends_with("_shutdown"));
    return begins_with(frame.function, {"pthread_join", "__pthread_clockjoin", "std::thread::join",
                                        "pthread_timedjoin", "thrd_join"});
  });
}

// Returns the number after these words in a text; 0 if they are not there.
pid_t number_after(const std::string& text, std::string_view words) {
  const auto at = text.find(words);
  pid_t number = 0;
  if (at != std::string::npos)
    std::from_chars(text.data() + at + words.size(), text.data() + text.size(), number);
  return number;
}

std::string place_in(const ThreadLook& thread, const std::string& program) {
  const auto at = users_frame(thread, program);
  return at ? place_text(thread.stack[*at]) : std::string();
}

// Returns "" if the thread does not wait for Python's lock.
std::string python_lock_words(const ThreadLook& thread, const ProcessLook& look) {
  const auto few = std::min<std::size_t>(thread.stack.size(), 6);
  const bool waits =
      std::any_of(thread.stack.begin(), thread.stack.begin() + static_cast<long>(few),
                  [](const LookFrame& frame) { return frame.function == "take_gil"; });
  const auto holder = std::ranges::find_if(look.threads, &ThreadLook::holds_gil);
  if (!waits || holder == look.threads.end() || holder->tid == thread.tid) return {};
  const auto place = place_in(*holder, look.program);
  return fmt::format("waiting for Python's lock (GIL), which thread {} holds{}", holder->tid,
                     place.empty() ? "" : " in " + place);
}

// Returns whether a wait only ends by time.
bool sleeps(const ThreadLook& thread) {
  if (thread.system_call.find("nanosleep") != std::string::npos) return true;
  const bool is_poll = thread.system_call.find("select") != std::string::npos ||
                       thread.system_call.find("poll") != std::string::npos;
  return is_poll && thread.waits_for.starts_with("at most ");
}

std::string compute_words(const ThreadLook& thread) {
  const auto share = 100 * processor_share(thread);
  return share > 0 ? fmt::format("using {:.0f} % of a processor", std::min(share, 100.0))
                   : std::string("running");
}

std::string wait_words(const ThreadLook& thread, const ProcessLook& look) {
  if (auto words = python_lock_words(thread, look); !words.empty()) return words;
  if (thread.state == 'R')
    return processor_share(thread) > 0 ? "polling, " + compute_words(thread) : "polling";
  if (sleeps(thread)) return "sleeping";
  const bool says_enough = begins_with(thread.waits_for, {"the file system (", "a page of a file"});
  const bool hangs = thread.state == 'D' && !says_enough;
  std::string words = hangs ? "hanging in the kernel" : "waiting";
  if (!thread.waits_for.empty())
    words += (hangs ? ", for " : " for ") + thread.waits_for;
  else if (thread.state == 'D' && !thread.wait_channel.empty())
    words += " (" + thread.wait_channel + ")";
  else if (!thread.system_call.empty())
    words += " in the system call " + thread.system_call;
  if (const pid_t holder = number_after(thread.waits_for, "a mutex that thread "); holder != 0)
    if (const auto* const other = thread_with(look, holder); other != nullptr && other != &thread)
      if (const auto place = place_in(*other, look.program); !place.empty())
        words += ", which is in " + place;
  return words;
}

std::string time_words(const ThreadLook& thread) {
  const double seconds = thread.waiting_seconds.value_or(0);
  return seconds >= kShownWait ? " for " + wait_time_text(seconds) : std::string();
}

// Returns whether the thread sleeps, and runs for a moment now and then: it polls. On a busy
// machine a thread that computes may get little of a processor, but it wants one all the time.
bool polls(const ThreadLook& thread) {
  if (!thread.movement || thread.movement->sleeps == 0) return false;
  const auto& moved = *thread.movement;
  const double wanted = moved.cpu_seconds + moved.queued_seconds;
  return wanted > 0 && wanted <= kComputes * moved.seconds;
}

bool runs(const ThreadLook& thread) {
  return (thread.state == 'R' && !polls(thread)) || processor_share(thread) > kComputes;
}

// What another thread does, for one that waits for it.
std::string place_and_state(const ThreadLook& thread, const ProcessLook& look) {
  const auto place = place_in(thread, look.program);
  if (place.empty()) return {};
  return place + ", " +
         (runs(thread) ? compute_words(thread) : wait_words(thread, look) + time_words(thread));
}

// Returns the thread whose end the thread waits for, if the kernel says so; otherwise null.
const ThreadLook* ended_for(const ThreadLook& thread, const ProcessLook& look) {
  const pid_t tid = number_after(thread.waits_for, "the end of thread ");
  const auto* const other = tid == 0 ? nullptr : thread_with(look, tid);
  return other == &thread ? nullptr : other;
}

bool waits_for_thread(const ThreadLook& thread) {
  return joins(thread) || thread.waits_for.starts_with("another thread") ||
         thread.waits_for.starts_with("the end of thread ");
}

// Returns the other threads that are in the user's program, if all of them do the same, so that it
// is clear what the thread waits for.
std::vector<const ThreadLook*> threads_waited_for(const ThreadLook& thread,
                                                  const ProcessLook& look) {
  if (!waits_for_thread(thread)) return {};
  if (const auto* const other = ended_for(thread, look)) return {other};
  std::vector<const ThreadLook*> others;
  for (const auto& each : look.threads) {
    if (&each == &thread || !users_frame(each, look.program)) continue;
    if (!others.empty() && place_in(each, look.program) != place_in(*others[0], look.program))
      return {};
    others.push_back(&each);
  }
  return others;
}

std::string other_thread_words(const ThreadLook& thread, const ProcessLook& look) {
  if (!python_lock_words(thread, look).empty()) return {};
  const auto others = threads_waited_for(thread, look);
  const auto words = others.empty() ? std::string() : place_and_state(*others[0], look);
  if (words.empty()) return {};
  if (ended_for(thread, look) != nullptr) return ", which is in " + words;
  return others.size() == 1 ? "; its other thread is in " + words
                            : fmt::format("; its {} other threads are in {}", others.size(), words);
}

std::string state_of(const ThreadLook& thread, const ProcessLook& look, Doing doing) {
  switch (doing) {
    case Doing::stopped:
      return "stopped by a signal (SIGSTOP; SIGCONT continues it)";
    case Doing::traced:
      return look.traced_by == 0
                 ? "stopped by a debugger"
                 : fmt::format("stopped by a debugger ({}, pid {})", look.tracer, look.traced_by);
    case Doing::frozen:
      return "frozen by its control group";
    case Doing::computes:
      return compute_words(thread);
    case Doing::waits:
      return wait_words(thread, look) + time_words(thread) + other_thread_words(thread, look);
    case Doing::waits_for_gpu: {
      const auto function = find_gpu_wait(thread, look.program).value_or("");
      return "waiting for the GPU" + (function.empty() ? "" : " (" + function + ")") +
             time_words(thread);
    }
    case Doing::in_collective:
    case Doing::unknown:
      break;
  }
  return {};
}

// Returns whether the thread uses a processor or reads a file.
bool works(const ThreadLook& thread) {
  return processor_share(thread) > kMoves || thread.state == 'D' ||
         thread.waits_for.find(": /") != std::string::npos ||
         begins_with(thread.waits_for, {"the file system (", "a page of a file"});
}

// Returns the collective that the thread waits for although its own stack does not show one: a
// thread of the same library is in it, as in JAX, or it has begun a function of TensorFlow in which
// nothing else happens. Its frame is 0.
std::optional<CollectiveCall> call_of_framework(const ThreadLook& thread, const ProcessLook& look) {
  if (runs(thread) || !waits_for_thread(thread) || !threads_waited_for(thread, look).empty())
    return std::nullopt;
  const auto waits_in = [&thread](const std::string& library) {
    return !library.empty() &&
           std::ranges::find(thread.stack, library, &LookFrame::library) != thread.stack.end();
  };
  for (const auto& other : look.threads) {
    const auto call = &other == &thread ? std::nullopt : find_collective(other.stack);
    if (call && waits_in(other.stack[call->frame].library))
      return CollectiveCall{call->function, 0, call->pairwise};
  }
  const bool in_function = std::ranges::any_of(thread.stack, [](const LookFrame& frame) {
    return frame.is_python && frame.file.ends_with("tensorflow/python/eager/execute.py");
  });
  if (!in_function || std::ranges::any_of(look.threads, works)) return std::nullopt;
  return CollectiveCall{"a tf.function", 0, false};
}

Doing doing_of(const ThreadLook& thread, const ProcessLook& look, bool in_collective) {
  if (look.state == 'T') return Doing::stopped;
  if (look.state == 't') return Doing::traced;
  if (look.frozen) return Doing::frozen;
  if (in_collective) return Doing::in_collective;
  if (find_gpu_wait(thread, look.program)) return Doing::waits_for_gpu;
  return runs(thread) ? Doing::computes : Doing::waits;
}

// What may keep a process from its work, beside what its thread does.
std::string note_of(const ProcessLook& look, Doing doing) {
  std::string note;
  const auto add = [&note](const std::string& text) { note += (note.empty() ? "" : "; ") + text; };
  if (doing == Doing::waits) {
    std::size_t count = 0;
    for (const auto& child : look.children)
      if ((child.state == 'Z' || child.state == 'T') && ++count <= kMostChildren)
        add(fmt::format("its child {} ({}) {}", child.pid, child.name,
                        child.state == 'Z' ? "has ended" : "is stopped"));
    if (count > kMostChildren) add(fmt::format("so it is with {} more", count - kMostChildren));
  }
  if (look.throttled.value_or(0) > kThrottled)
    add(fmt::format("its control group was throttled {:.0f} % of the time", 100 * *look.throttled));
  if (look.swapped_in_per_second.value_or(0) > kSwapsPerSecond && look.swapped_kib > 0)
    add(fmt::format("it reads {:.0f} pages a second from swap", *look.swapped_in_per_second));
  if (look.traced_by != 0 && doing != Doing::traced)
    add(fmt::format("{} (pid {}) traces it", look.tracer, look.traced_by));
  return note;
}

}  // namespace

std::string wait_time_text(double seconds) {
  return seconds < 10 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.0f} s", seconds);
}

std::string with_commas(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string place_text(const LookFrame& frame) {
  std::string text;
  if (!frame.file.empty()) {
    text = std::filesystem::path(frame.file).filename().string();
    if (frame.line != 0) text += fmt::format(":{}", frame.line);
  }
  if (frame.function == "<module>") return text;
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  std::string function = frame.function;
  for (auto at = function.find(kAnonymous); at != std::string::npos; at = function.find(kAnonymous))
    function.erase(at, kAnonymous.size());
  function.resize(std::min(function.find('('), function.size()));
  if (const auto at = function.rfind("<locals>."); at != std::string::npos)
    function.erase(0, at + std::string_view("<locals>.").size());
  return text + (text.empty() ? "" : " ") + function + "()";
}

const ThreadLook* key_thread(const ProcessLook& look) {
  if (look.threads.empty()) return nullptr;
  const auto* main = thread_with(look, look.pid);
  if (main == nullptr) main = &look.threads.front();
  if (look.state == 'T' || look.state == 't' || find_collective(main->stack)) return main;
  const bool has_others = waits_for_thread(*main) && !find_gpu_wait(*main, look.program);
  if (!has_others && users_frame(*main, look.program)) return main;
  // A thread of the user that is in a collective, or else the one that main waits for.
  for (const auto& thread : look.threads)
    if (&thread != main && users_frame(thread, look.program) && find_collective(thread.stack))
      return &thread;
  const auto others = threads_waited_for(*main, look);
  const bool is_better = !others.empty() && users_frame(*others[0], look.program);
  return joins(*main) && is_better ? others[0] : main;
}

RankPlace place_of(const ProcessLook& look) {
  RankPlace place;
  const ThreadLook* thread = key_thread(look);
  if (thread == nullptr) return place;
  auto call = find_collective(thread->stack);
  if (!call) call = call_of_framework(*thread, look);
  place.doing = doing_of(*thread, look, call.has_value());
  if (call && place.doing == Doing::in_collective) {
    place.collective = call->function;
    place.pairwise = call->pairwise;
    place.in_libhvd = std::ranges::any_of(thread->stack, is_of_libhvd);
  }
  if (const auto at = users_frame(*thread, look.program, call ? call->frame : 0)) {
    const auto& frame = thread->stack[*at];
    place.where = place_text(frame);
    if (call)
      place.called_from =
          frame.file.empty()
              ? place.where
              : fmt::format("{}:{}", std::filesystem::path(frame.file).filename().string(),
                            frame.line);
  }
  place.state = state_of(*thread, look, place.doing);
  place.note = note_of(look, place.doing);
  place.waiting_seconds = thread->waiting_seconds.value_or(0);
  place.moves = (thread->movement && thread->movement->frame_moved) ||
                std::ranges::any_of(look.threads, [](const ThreadLook& each) {
                  return processor_share(each) > kMoves;
                });
  place.naps = thread->movement &&
               static_cast<double>(thread->movement->sleeps) > kNaps * thread->movement->seconds;
  return place;
}

}  // namespace hvdrun
