#include "agent/descriptor_limit.hpp"

#include "common/system.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace hvdrun {
namespace {

std::size_t count_open() {
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  return error ? 0 : static_cast<std::size_t>(std::distance(begin(open), end(open)));
}

}  // namespace

rlimit raise_descriptor_limit(std::size_t wanted) {
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

std::size_t free_descriptors(std::size_t more) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const auto needed = count_open() + more;
  return limit.rlim_cur > needed ? limit.rlim_cur - needed : 0;
}

Result<void> check_descriptors(std::size_t more, const std::string& needed_for) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return {};
  const auto needed = count_open() + more;
  if (needed <= limit.rlim_cur) return {};
  return fail(
      fmt::format(
          "{} on {} take {} open files, and the limit is {}: raise ulimit -n, the hard limit "
          "of open files (limits.conf(5), LimitNOFILE= of a service)",
          needed_for, local_host_name(), needed, limit.rlim_cur),
      kExitUsage);
}

Result<void> prepare_descriptors(std::size_t ranks) {
  // Of a rank that is being started: both ends of two pipes, the status page's eventfd.
  constexpr std::size_t kLeastPerRank = 6;
  // What else is opened while ranks start: by PMIx, and for the order of their streams.
  constexpr std::size_t kLeastBeside = 12;
  raise_descriptor_limit(kOwnDescriptors + kDescriptorsPerRank * ranks);
  return check_descriptors(kLeastBeside + kLeastPerRank * ranks, plural(ranks, "rank"));
}

}  // namespace hvdrun
