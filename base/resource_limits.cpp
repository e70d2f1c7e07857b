#include "base/resource_limits.hpp"

#include <algorithm>
#include <array>

#include <sys/stat.h>

namespace hvdrun {
namespace {

constexpr std::array kTaken{RLIMIT_CORE,   RLIMIT_DATA,  RLIMIT_FSIZE,
                            RLIMIT_NOFILE, RLIMIT_STACK, RLIMIT_AS};
constexpr std::array kOnlyRaised{RLIMIT_MEMLOCK, RLIMIT_NPROC, RLIMIT_CPU};

}  // namespace

std::vector<ResourceLimit> limits_that_travel() {
  std::vector<ResourceLimit> limits;
  const auto add = [&](int resource) {
    ResourceLimit limit{resource, {}};
    if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit.value) == 0)
      limits.push_back(limit);
  };
  for (const int resource : kTaken) add(resource);
  for (const int resource : kOnlyRaised) add(resource);
  return limits;
}

void set_limit(const ResourceLimit& limit) {
  const auto resource = static_cast<__rlimit_resource>(limit.resource);
  rlimit wanted = limit.value;
  rlimit now{};
  if (::getrlimit(resource, &now) != 0) return;
  if (std::find(kOnlyRaised.begin(), kOnlyRaised.end(), limit.resource) != kOnlyRaised.end()) {
    wanted.rlim_cur = std::max(wanted.rlim_cur, now.rlim_cur);
    wanted.rlim_max = std::max(wanted.rlim_max, now.rlim_max);
  }
  if (::setrlimit(resource, &wanted) == 0) return;
  wanted.rlim_max = std::min(wanted.rlim_max, now.rlim_max);
  wanted.rlim_cur = std::min(wanted.rlim_cur, wanted.rlim_max);
  ::setrlimit(resource, &wanted);
}

void take_over(std::optional<int> umask, int niceness) {
  if (umask) ::umask(static_cast<mode_t>(*umask));
  // Only a privileged user may lower it.
  if (niceness > ::getpriority(PRIO_PROCESS, 0)) ::setpriority(PRIO_PROCESS, 0, niceness);
}

}  // namespace hvdrun
