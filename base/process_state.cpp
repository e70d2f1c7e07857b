#include "base/process_state.hpp"

#include "common/file_content.hpp"

#include <string>

#include <fmt/format.h>

namespace hvdrun {

char process_state(pid_t pid) {
  const auto text = content_of(fmt::format("/proc/{}/stat", pid));
  const auto end = text.rfind(')');  // of the name, which may have any characters
  return end != std::string::npos && text.size() > end + 2 ? text[end + 2] : '\0';
}

}  // namespace hvdrun
