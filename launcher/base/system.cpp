#include "base/system.hpp"

#include "common/system.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

namespace hvdrun {

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("cannot make a pipe", errno);
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

Result<void> set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return fail_errno("cannot make a descriptor non-blocking", errno);
  return {};
}

std::string random_hex(std::size_t bytes) {
  std::vector<std::uint8_t> raw(bytes);
  if (!fill_random(raw)) std::abort();
  return to_hex(raw);
}

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

Result<std::thread> start_thread(const std::string& does, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::thread> started;
  try {
    started = std::thread(std::move(body));
  } catch (const std::system_error& error) {
    started = fail_errno("cannot start the thread that " + does, error.code().value());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace hvdrun
