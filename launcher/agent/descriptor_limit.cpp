#include "agent/descriptor_limit.hpp"

#include <algorithm>

#include <fcntl.h>
#include <unistd.h>

namespace hvdrun {

rlimit make_room_for_descriptors(std::size_t wanted) {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit raised = before;
  raised.rlim_cur = std::max<rlim_t>(before.rlim_cur, std::min<rlim_t>(wanted, before.rlim_max));
  ::setrlimit(RLIMIT_NOFILE, &raised);
  const auto last = std::min<rlim_t>(wanted, raised.rlim_cur) - 1;
  const int high = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, static_cast<int>(last));
  if (high >= 0) ::close(high);
  return before;
}

}  // namespace hvdrun
