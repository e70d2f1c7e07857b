// System calls that a signal interrupts.
#include "support.hpp"
#include "transport/segment.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>

namespace {

std::atomic<int> interruptions{0};
std::atomic<bool> signals_could_come{false};

}  // namespace

// Replaces libc's function in this program. Signals interrupt it on kernels before 6.x; see
// fallocate(2).
extern "C" int posix_fallocate(int file, off_t begin, off_t bytes) {
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  if (sigismember(&blocked, SIGPROF) == 0) signals_could_come = true;
  if (interruptions > 0) {
    --interruptions;
    return EINTR;
  }
  using Function = int (*)(int, off_t, off_t);
  static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "posix_fallocate"));
  return real(file, begin, bytes);
}

namespace libhvd {
namespace {

TEST(Interrupted, ReservationOfMemoryIsRepeated) {
  const test::TemporaryFolder folder;
  signals_could_come = false;
  interruptions = 3;
  auto segment = Segment::create(folder.path(), "j1", 2);
  ASSERT_TRUE(segment.ok()) << segment.error().message;
  EXPECT_EQ(interruptions, 0);
  interruptions = 3;
  const auto range = segment->reserve_range(100'000);
  ASSERT_TRUE(range.ok()) << range.error().message;
  EXPECT_EQ(interruptions, 0);
  EXPECT_FALSE(signals_could_come)
      << "signals are not blocked: a timer could interrupt it again and again";
}

}  // namespace
}  // namespace libhvd
