// Joins Python's frames and native frames into one stack. A call of the interpreter's main function
// is replaced by the frames in Python that it runs. Pure functions, for any thread.
#pragma once

#include "look/native_stack.hpp"
#include "look/process_look.hpp"

#include <string>
#include <vector>

namespace hvdrun {

struct PythonStackFrame {
  LookFrame frame;
  bool entry = false;  // as in PythonFrame
};

struct MergedStack {
  std::vector<LookFrame> frames;  // the innermost first
  bool merged =
      true;  // false: Python's frames are together, below the native ones that they called
};

// `interpreter` is the path of the file with the interpreter's code; "": there is none.
MergedStack merge_stacks(const std::vector<PythonStackFrame>& python, const NativeStack& native,
                         const std::string& interpreter);

}  // namespace hvdrun
