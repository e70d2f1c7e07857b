// How rank 0 waits until the folder holds the part files of all ranks. The ranks do not communicate
// for this, because training continues meanwhile: a part is complete when its file is there.
//
// wait() runs on one thread, the one that writes the manifest. Other threads may call timeout().
#pragma once

#include "base/error.hpp"
#include "checkpoint/format.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>

namespace libhvd::checkpoint {

class PartWatch {
 public:
  // Cancels an earlier timeout(). Call it before wait().
  void reset();

  // Waits until all part files of `manifest` are there, and returns it with the checksums from
  // them. Waits without limit until timeout() sets one. Error: a part belongs to another checkpoint
  // or cannot be read; the time is over.
  Result<Index> wait(const std::string& folder, Index manifest);

  // Limits wait() to this long from now; of several limits the earliest applies. Call it when the
  // other ranks have written their parts, or when nothing more can be known about them.
  void timeout(std::chrono::milliseconds at_most);

 private:
  using Clock = std::chrono::steady_clock;

  // Waits until the folder should be listed again. `begin`: when the wait began. Returns false if
  // the time is over.
  bool pause(Clock::time_point begin);

  std::mutex mutex_;  // guards end_
  std::condition_variable changed_;
  std::optional<Clock::time_point> end_;
};

}  // namespace libhvd::checkpoint
