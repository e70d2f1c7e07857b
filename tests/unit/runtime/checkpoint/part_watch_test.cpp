// How rank 0 waits for the parts of the other ranks.
#include "checkpoint/part_watch.hpp"

#include "common/fd.hpp"
#include "support.hpp"

#include <chrono>
#include <cstddef>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

namespace libhvd::checkpoint {
namespace {

using namespace std::chrono_literals;
using test::TemporaryFolder;

// Returns how often the folder was opened since it has been watched.
std::size_t openings(int inotify) {
  std::vector<char> events(1 << 16);
  const ssize_t bytes = ::read(inotify, events.data(), events.size());
  std::size_t count = 0;
  for (ssize_t at = 0; at < bytes;) {
    inotify_event event;
    std::memcpy(&event, &events[static_cast<std::size_t>(at)], sizeof event);
    count += (event.mask & IN_OPEN) != 0 ? 1 : 0;
    at += static_cast<ssize_t>(sizeof event + event.len);
  }
  return count;
}

TEST(PartWatch, WaitsWithoutListingTheFolderAllTheTime) {
  const TemporaryFolder folder;
  const Fd inotify(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  // Closing is watched too, because equal events in a row become one.
  ASSERT_GE(::inotify_add_watch(inotify.get(), folder.path().c_str(),
                                IN_OPEN | IN_CLOSE_NOWRITE | IN_ONLYDIR),
            0);
  Index manifest;
  manifest.kind = FileKind::manifest;
  manifest.blocks = {.data_bytes = 4096, .block_bytes = 4096};
  manifest.part_files = {{.first = 0, .count = 1}};
  PartWatch watch;
  watch.timeout(800ms);
  EXPECT_FALSE(watch.wait(folder.path(), manifest).ok());
  const std::size_t listings = openings(inotify.get());
  EXPECT_GE(listings, 2u);
  EXPECT_LE(listings, 30u) << "in 800 ms";
}

}  // namespace
}  // namespace libhvd::checkpoint
