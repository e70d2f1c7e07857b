#include "base/process_state.hpp"

#include <fstream>
#include <iterator>
#include <string>

#include <fmt/format.h>

namespace hvdrun {

char process_state(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto end = text.rfind(')');  // of the name, which may have any characters
  return end != std::string::npos && text.size() > end + 2 ? text[end + 2] : '\0';
}

}  // namespace hvdrun
