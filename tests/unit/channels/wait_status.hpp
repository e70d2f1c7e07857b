#pragma once

namespace hvdrun {

// Returns the wait status, as of waitpid(2), of a process that exited with `code`.
constexpr int exited(int code) {
  return code << 8;
}

}  // namespace hvdrun
