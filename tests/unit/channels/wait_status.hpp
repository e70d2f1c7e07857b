#pragma once

namespace hvdrun {

// As waitpid(2) gives it.
constexpr int exited(int code) {
  return code << 8;
}

}  // namespace hvdrun
