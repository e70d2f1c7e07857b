// Waits until the ranks' parts of a checkpoint stand in the folder. There is no communication
// between the ranks while training goes on; what shows that a part is whole is its file.
//
// wait() runs on one thread; patience() may be called from others.
#pragma once

#include "base/result.hpp"
#include "checkpoint/format.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace libhvd::checkpoint {

class PartWatch {
 public:
  // Forgets an earlier patience().
  void reset();

  // The manifest, once all parts are there: `manifest` with the checksums that they bring. Waits
  // for ever, or as long as patience() allows. Error: a part is not what it should be; patience
  // ended.
  Result<Index> wait(const std::string& folder, Index manifest);

  // From now on wait() lasts at most this long: the other ranks have written their parts, or it
  // cannot be known whether they will.
  void patience(std::chrono::milliseconds at_most);

 private:
  using Clock = std::chrono::steady_clock;

  // Since `begin` there have been listings. False: patience has ended.
  bool pause(Clock::time_point begin);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Clock::time_point> end_;
};

}  // namespace libhvd::checkpoint
