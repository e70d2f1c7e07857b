#include "look/merge_stacks.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace hvdrun {
namespace {

// The interpreter's main function; from 3.14 on its parts may call each other in its place.
bool runs_python(const LookFrame& frame) {
  const std::string_view name = frame.function;
  return frame.interpreter &&
         (name == "_PyEval_EvalFrameDefault" || name.starts_with("_PyEval_EvalFrameDefault.") ||
          name.starts_with("_TAIL_CALL_"));
}

using Group = std::vector<LookFrame>;

}  // namespace

MergedStack merge_stacks(const std::vector<PythonStackFrame>& python, const NativeStack& native,
                         const std::string& interpreter) {
  std::vector<Group> groups(1);
  for (const auto& [frame, entry] : python) {
    groups.back().push_back(frame);
    if (entry) groups.emplace_back();
  }
  if (groups.back().empty()) groups.pop_back();
  std::vector<LookFrame> natives;
  for (const auto& frame : native.frames)
    natives.push_back({frame.function, frame.file, frame.line, frame.library, false,
                       !interpreter.empty() && frame.library == interpreter});
  const auto calls =
      static_cast<std::size_t>(std::count_if(natives.begin(), natives.end(), runs_python));
  // The outermost ones belong together, if both are known to their ends. The innermost may have
  // just begun.
  const bool fits = calls == groups.size() || (native.complete && calls + 1 == groups.size()) ||
                    (native.complete && calls == groups.size() + 1);
  MergedStack stack;
  stack.merged = fits || groups.empty() || natives.empty();
  if (!stack.merged || calls == 0) {
    // What Python has called is innermost.
    const auto first = groups.empty()
                           ? natives.begin()
                           : std::find_if(natives.begin(), natives.end(),
                                          [](const LookFrame& frame) { return frame.interpreter; });
    std::move(natives.begin(), first, std::back_inserter(stack.frames));
    for (auto& group : groups)
      std::move(group.begin(), group.end(), std::back_inserter(stack.frames));
    std::move(first, natives.end(), std::back_inserter(stack.frames));
    return stack;
  }
  std::size_t next = 0;
  if (groups.size() > calls)  // its call has not begun
    stack.frames = groups[next++];
  std::size_t without = calls > groups.size() ? 1 : 0;
  for (auto& frame : natives) {
    const bool runs = runs_python(frame);
    stack.frames.push_back(std::move(frame));
    if (!runs) continue;
    if (without > 0) {
      --without;
      continue;
    }
    stack.frames.pop_back();
    std::move(groups[next].begin(), groups[next].end(), std::back_inserter(stack.frames));
    ++next;
  }
  return stack;
}

}  // namespace hvdrun
