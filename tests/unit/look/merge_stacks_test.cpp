// Python's and native frames in one stack.
#include "look/merge_stacks.hpp"

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::ElementsAre;

constexpr const char* kInterpreter = "/usr/bin/python3";
constexpr const char* kLoop = "_PyEval_EvalFrameDefault";

PythonStackFrame python(const std::string& function, bool entry) {
  LookFrame frame;
  frame.function = function;
  frame.is_python = true;
  return {frame, entry};
}

NativeStack native(const std::vector<std::string>& functions, bool complete = true) {
  NativeStack stack;
  for (const auto& function : functions) {
    const bool is_own = function == kLoop || function.starts_with("Py");
    stack.frames.push_back({function, is_own ? kInterpreter : "/lib/libc.so.6", "", 0});
  }
  stack.complete = complete;
  return stack;
}

std::vector<std::string> names(const MergedStack& stack) {
  std::vector<std::string> found;
  for (const auto& frame : stack.frames) found.push_back(frame.function);
  return found;
}

TEST(MergeStacks, PutsEachGroupWhereTheInterpreterRunsIt) {
  const auto stack =
      merge_stacks({python("leaf", false), python("key", true), python("main", true)},
                   native({"read", kLoop, "PySort", kLoop, "main"}), kInterpreter);
  EXPECT_TRUE(stack.merged);
  EXPECT_THAT(names(stack), ElementsAre("read", "leaf", "key", "PySort", "main", "main"));
}

TEST(MergeStacks, AlignsTheOutermostIfTheInnermostHasJustBegun) {
  const auto no_frame =
      merge_stacks({python("main", true)}, native({kLoop, "PyCall", kLoop}), kInterpreter);
  EXPECT_THAT(names(no_frame), ElementsAre(kLoop, "PyCall", "main"));
  const auto no_call = merge_stacks({python("new", true), python("main", true)},
                                    native({"PyCall", kLoop}), kInterpreter);
  EXPECT_THAT(names(no_call), ElementsAre("new", "PyCall", "main"));
}

TEST(MergeStacks, KeepsPythonTogetherIfTheInterpreterHasNoSymbols) {
  const auto stack = merge_stacks({python("leaf", true), python("main", true)},
                                  native({"read", "Py?", "Py?", "start"}), kInterpreter);
  EXPECT_FALSE(stack.merged);
  EXPECT_THAT(names(stack), ElementsAre("read", "leaf", "main", "Py?", "Py?", "start"));
}

TEST(MergeStacks, TakesOneOfTheTwoAlone) {
  EXPECT_THAT(names(merge_stacks({python("main", true)}, {}, kInterpreter)), ElementsAre("main"));
  const auto stack = merge_stacks({}, native({"read", "main"}), "");
  EXPECT_TRUE(stack.merged);
  EXPECT_THAT(names(stack), ElementsAre("read", "main"));
}

TEST(Demangled, WritesNamesOfCppAndLeavesOthers) {
  EXPECT_EQ(demangled("_ZN6Writer5flushEv"), "Writer::flush()");
  EXPECT_EQ(demangled("read@@GLIBC_2.2.5"), "read");
  EXPECT_EQ(demangled("_Zx"), "_Zx");
  EXPECT_EQ(demangled(""), "?");
  EXPECT_EQ(demangled(nullptr), "?");
}

}  // namespace
}  // namespace hvdrun
