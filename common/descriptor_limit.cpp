#include "common/descriptor_limit.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include <sys/resource.h>

namespace common {
namespace {

// Extra files, for what the program opens meanwhile.
constexpr std::size_t kSpare = 64;

// Returns 0 if /proc cannot be read.
std::size_t open_descriptors() {
  std::error_code failed;
  const std::filesystem::directory_iterator folder("/proc/self/fd", failed);
  if (failed) return 0;
  return static_cast<std::size_t>(std::distance(begin(folder), end(folder)));
}

}  // namespace

void make_room_for_descriptors(std::size_t more) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  const rlim_t wanted = open_descriptors() + more + kSpare;
  if (wanted <= limit.rlim_cur) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace common
