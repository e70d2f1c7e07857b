#include "look/look_text.hpp"

#include "common/text.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr std::size_t kMostIds = 8;
constexpr std::size_t kLongestFunction = 120;
constexpr double kShortWait = 0.05;  // seconds; a shorter one is not worth a word

std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  // Not within a letter of UTF-8.
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0U) == 0x80U) --most;
  return text.substr(0, most) + "…";
}

std::string frame_line(const LookFrame& frame) {
  std::string place = frame.file;
  if (!place.empty() && frame.line != 0) place += fmt::format(":{}", frame.line);
  if (!frame.is_python && !frame.library.empty()) {
    const std::string library = std::filesystem::path(frame.library).filename();
    place = place.empty() ? library : place + ", " + library;
  }
  return shortened(frame.function, kLongestFunction) + (place.empty() ? "" : " (" + place + ")");
}

bool alike(const ThreadLook& one, const ThreadLook& other) {
  return one.state == other.state && one.system_call == other.system_call &&
         one.waits_for == other.waits_for && one.name == other.name && one.stack == other.stack &&
         one.holds_gil == other.holds_gil && one.problem == other.problem;
}

std::string ids(const std::vector<const ThreadLook*>& threads) {
  std::string text = threads.size() == 1 ? "thread " : fmt::format("{} threads ", threads.size());
  for (std::size_t index = 0; index < threads.size() && index < kMostIds; ++index)
    text += (index == 0 ? "" : ", ") + std::to_string(threads[index]->tid);
  return text + (threads.size() > kMostIds ? ", …" : "");
}

std::string waiting_time(const std::vector<const ThreadLook*>& threads) {
  double least = -1;
  double most = -1;
  for (const auto* thread : threads) {
    const double seconds = thread->waiting_seconds.value_or(-1);
    if (least < 0 || seconds < least) least = seconds;
    most = std::max(most, seconds);
  }
  if (least < kShortWait) return {};
  const auto time = [](double seconds) {
    return seconds < 10 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.0f} s", seconds);
  };
  return " for " + (time(least) == time(most) ? "" : time(least) + " to ") + time(most);
}

// Returns "" if it is not known of all of them, or if it differs.
std::string movement_words(const std::vector<const ThreadLook*>& threads) {
  const auto stays = [](const ThreadLook* thread) {
    return thread->movement && thread->movement->switches == 0 &&
           thread->movement->cpu_seconds <= 0;
  };
  if (!threads[0]->movement) return {};
  const Movement& moved = *threads[0]->movement;
  const std::string span = fmt::format("in {:.1f} s", moved.seconds);
  if (std::all_of(threads.begin(), threads.end(), stays))
    return fmt::format("    {} not moved {}\n", threads.size() == 1 ? "it has" : "they have", span);
  if (threads.size() > 1) return {};
  return fmt::format("    {} it used {:.0f} % of a processor and left it {} times; its stack {}\n",
                     span, 100 * moved.cpu_seconds / moved.seconds, moved.switches,
                     moved.frame_moved ? "changed" : "is the same");
}

std::string thread_text(const std::vector<const ThreadLook*>& threads, bool all) {
  const ThreadLook& thread = *threads[0];
  std::string text = fmt::format("  {} \"{}\": {}", ids(threads), printable(thread.name),
                                 state_words(thread.state));
  if (!thread.system_call.empty()) text += " in " + thread.system_call;
  text += waiting_time(threads);
  if (!thread.waits_for.empty())
    text += ", waits for " + printable(thread.waits_for);
  else if (thread.state == 'D' && !thread.wait_channel.empty())
    text += ", in the kernel's " + thread.wait_channel;
  if (thread.holds_gil) text += "; holds Python's lock (GIL)";
  text += "\n";
  text += movement_words(threads);
  if (!thread.problem.empty()) text += "    " + thread.problem + "\n";
  const bool has_python = std::any_of(thread.stack.begin(), thread.stack.end(),
                                      [](const LookFrame& frame) { return frame.is_python; });
  std::string last;
  for (const auto& frame : thread.stack) {
    const std::string line = "    " + printable(frame_line(frame)) + "\n";
    const bool again = frame.function == "?" && line == last;  // without names, one line will do
    last = line;
    if (all || !((has_python && frame.interpreter) || again)) text += line;
  }
  return text;
}

std::string process_line(const ProcessLook& look) {
  std::string text =
      fmt::format("pid {} ({}): {}", look.pid, printable(look.name), state_words(look.state));
  if (!look.python.empty()) text += ", Python " + look.python;
  text += ", " + plural(look.thread_count, "thread");
  if (look.pause_seconds > 0)
    text += fmt::format(", was stopped for {:.1f} ms", look.pause_seconds * 1000);
  text += "\n";
  if (!look.command.empty()) text += "  " + shortened(printable(look.command), 200) + "\n";
  return text;
}

}  // namespace

std::string look_text(const ProcessLook& look, bool all) {
  std::string text = process_line(look);
  const auto note = [&text](const std::string& words) { text += "  note: " + words + "\n"; };
  if (look.traced_by != 0)
    note(fmt::format("pid {} ({}) traces it", look.traced_by, printable(look.tracer)));
  if (look.frozen) note("its control group is frozen");
  if (look.throttled.value_or(0) > 0.01)
    note(
        fmt::format("its control group was throttled {:.0f} % of the time", 100 * *look.throttled));
  if (look.swapped_kib > 0)
    note(fmt::format("{} MiB of it are swapped out", look.swapped_kib / 1024));
  if (look.swapped_in_per_second.value_or(0) > 1)
    note(fmt::format("it reads {:.0f} pages a second from disk", *look.swapped_in_per_second));
  for (const auto& problem : look.problems) note(printable(problem));
  if (!look.unfinished.empty()) note("the look did not end: it was " + look.unfinished);
  std::vector<bool> shown(look.threads.size());
  for (std::size_t first = 0; first < look.threads.size(); ++first) {
    if (shown[first]) continue;
    std::vector<const ThreadLook*> group;
    for (std::size_t index = first; index < look.threads.size(); ++index) {
      if (shown[index] || !alike(look.threads[first], look.threads[index])) continue;
      shown[index] = true;
      group.push_back(&look.threads[index]);
    }
    text += thread_text(group, all);
  }
  return text;
}

}  // namespace hvdrun
