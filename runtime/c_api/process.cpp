#include "c_api/process.hpp"

namespace libhvd {

Process& process() {
  static auto* const only = new Process;
  return *only;
}

std::uint64_t last_generation() {
  if (process().forked) return 0;
  const std::lock_guard lock(process().state);
  return process().session_handles.last();
}

}  // namespace libhvd
