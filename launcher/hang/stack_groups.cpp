#include "hang/stack_groups.hpp"

#include "common/text.hpp"
#include "hang/collective_calls.hpp"
#include "hang/rank_place.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr std::size_t kMostFrames = 16;
constexpr std::size_t kMostGroups = 8;
constexpr std::size_t kMostThreads = 6;  // other threads of a rank, by their stacks
constexpr std::size_t kLongestFunction = 100;

std::string frame_line(const LookFrame& frame) {
  std::string function = frame.function;
  if (function.size() > kLongestFunction) function = function.substr(0, kLongestFunction) + "…";
  std::string place = frame.file;
  if (!place.empty() && frame.line != 0) place += fmt::format(":{}", frame.line);
  if (!frame.is_python && !frame.library.empty()) {
    const auto library = std::filesystem::path(frame.library).filename().string();
    place = place.empty() ? library : place + ", " + library;
  }
  return printable(function + (place.empty() ? "" : " (" + place + ")"));
}

// Every stack begins with these, in the system's libraries.
bool begins_every_stack(const LookFrame& frame) {
  const auto& name = frame.function;
  return name == "__libc_start_call_main" || name == "__libc_start_main" || name == "_start" ||
         name == "start_thread" || name == "__clone3" || name == "clone";
}

// Returns the frames that are shown: without the interpreter's own functions, those that begin
// every stack, and functions without a name that follow another.
std::vector<const LookFrame*> shown_frames(const ThreadLook& thread) {
  const bool has_python = std::ranges::any_of(thread.stack, &LookFrame::is_python);
  std::vector<const LookFrame*> frames;
  for (const auto& frame : thread.stack) {
    if ((has_python && frame.interpreter) || begins_every_stack(frame)) continue;
    const bool is_again = !frames.empty() && frame.function == "?" &&
                          frames.back()->function == "?" &&
                          frame_line(frame) == frame_line(*frames.back());
    if (!is_again) frames.push_back(&frame);
  }
  return frames;
}

// Of libhvd's functions, which call each other, the one that the user called is shown. Of a long
// stack the user's functions are shown, wherever they are.
std::vector<std::string> frame_lines(const ThreadLook& thread, const std::string& program) {
  const auto frames = shown_frames(thread);
  std::vector<std::string> lines;
  std::size_t folded = 0;
  std::size_t left_out = 0;
  std::size_t shown = 0;
  const auto add_count = [&lines](std::size_t& count, std::string_view words) {
    if (count > 0) lines.push_back(fmt::format("    … {} {}", plural(count, "function"), words));
    count = 0;
  };
  for (std::size_t index = 0; index < frames.size(); ++index) {
    const auto& frame = *frames[index];
    const bool is_inner =
        is_of_libhvd(frame) && index + 1 < frames.size() && is_of_libhvd(*frames[index + 1]);
    if (is_inner) {
      ++folded;
      continue;
    }
    add_count(folded, "of libhvd");
    if (shown >= kMostFrames && (shown >= 2 * kMostFrames || !is_users(frame, program))) {
      ++left_out;
      continue;
    }
    add_count(left_out, "more");
    lines.push_back("    " + frame_line(frame));
    ++shown;
  }
  add_count(left_out, "more");
  return lines;
}

// Without what differs from rank to rank, so that equal ones can be found.
std::string thread_words(const ThreadLook& thread) {
  std::string words = state_words(thread.state);
  if (!thread.system_call.empty() && thread.state != 'R') words += " in " + thread.system_call;
  if (thread.holds_gil) words += ", holds Python's lock (GIL)";
  if (!thread.problem.empty()) words += " (" + thread.problem + ")";
  return words;
}

struct Group {
  std::vector<int> ranks;
  std::string title;
  std::vector<std::string> frames;
  const RankFacts* rank = nullptr;
  const ProcessLook* look = nullptr;
};

void add_other_threads(const ProcessLook& look, const ThreadLook* shown,
                       std::vector<std::string>& lines) {
  struct Threads {
    std::string title;
    std::vector<std::string> frames;
    std::vector<std::string> names;
  };
  std::vector<Threads> groups;
  for (const auto& thread : look.threads) {
    if (&thread == shown) continue;
    Threads one{thread_words(thread), frame_lines(thread, look.program), {printable(thread.name)}};
    const auto same = std::ranges::find_if(groups, [&](const Threads& other) {
      return other.title == one.title && other.frames == one.frames;
    });
    if (same == groups.end())
      groups.push_back(std::move(one));
    else
      same->names.push_back(one.names.front());
  }
  // Those with the user's own functions say most.
  std::ranges::stable_sort(groups, {}, [](const Threads& group) { return group.names.size(); });
  std::size_t more = 0;
  for (std::size_t index = 0; index < groups.size(); ++index) {
    const auto& group = groups[index];
    if (index >= kMostThreads) {
      more += group.names.size();
      continue;
    }
    const auto count = group.names.size();
    lines.push_back(fmt::format("   {} \"{}\": {}",
                                count == 1 ? "thread" : fmt::format("{} threads", count),
                                group.names.front(), group.title));
    std::ranges::copy(group.frames, std::back_inserter(lines));
  }
  if (more > 0) lines.push_back(fmt::format("   and {} more", plural(more, "thread")));
}

std::vector<Group> group_ranks(const std::vector<const RankFacts*>& ranks) {
  std::vector<Group> groups;
  for (const auto* rank : ranks)
    for (const auto& look : rank->looks) {
      Group one{{rank->rank}, {}, {}, rank, &look};
      const ThreadLook* thread = key_thread(look);
      if (thread != nullptr) {
        one.title = thread_words(*thread);
        one.frames = frame_lines(*thread, look.program);
      } else {
        one.title = state_words(look.state);
      }
      const auto same = std::ranges::find_if(groups, [&](const Group& other) {
        return other.title == one.title && other.frames == one.frames &&
               other.look->name == look.name;
      });
      if (same == groups.end())
        groups.push_back(std::move(one));
      else if (same->ranks.back() != rank->rank)
        same->ranks.push_back(rank->rank);
    }
  return groups;
}

}  // namespace

std::vector<std::string> stack_lines(const std::vector<RankFacts>& ranks,
                                     const std::vector<int>& first) {
  std::vector<const RankFacts*> ordered;
  const auto is_first = [&](const RankFacts* rank) {
    return std::ranges::find(first, rank->rank) != first.end();
  };
  for (const auto& rank : ranks) ordered.push_back(&rank);
  std::stable_partition(ordered.begin(), ordered.end(), is_first);
  const auto groups = group_ranks(ordered);
  std::vector<std::string> lines;
  for (std::size_t index = 0; index < groups.size(); ++index) {
    if (index >= kMostGroups) {
      lines.push_back(fmt::format("and {} more different stacks", groups.size() - index));
      break;
    }
    const auto& group = groups[index];
    const std::string pid = group.ranks.size() == 1
                                ? fmt::format(" on {}, pid {}", group.rank->host, group.look->pid)
                                : std::string();
    lines.push_back(fmt::format("{}{} ({}): {}", describe_ranks(group.ranks), pid,
                                printable(group.look->name), group.title));
    for (const auto& problem : group.look->problems)
      lines.push_back("   note: " + printable(problem));
    if (!group.look->unfinished.empty())
      lines.push_back("   note: the look did not end: it was " + group.look->unfinished);
    std::ranges::copy(group.frames, std::back_inserter(lines));
    if (group.ranks.size() == 1 && (is_first(group.rank) || ranks.size() == 1))
      add_other_threads(*group.look, key_thread(*group.look), lines);
  }
  return lines;
}

}  // namespace hvdrun
