// The sessions of this process, counted from 1 (hvd.h: generations), and the handles of collectives
// in the background. No two engines of a process give the same handle, so a handle of a session
// that is over is never one of a later session.
//
// A handle has the number of its engine in its upper bits. The engines of all sessions are counted:
// in a session first that of all ranks, then those of its process sets.
//
// A plain value, without a lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace libhvd {

class Generations {
 public:
  // What a handle says.
  struct Place {
    std::uint64_t generation;  // of its session; 0: there has been no session
    std::int32_t process_set;
  };

  // Begins a session, after the end of the one before.
  void begin() { first_engines_.push_back(engines_); }
  // Ends it. `process_sets`: how many were made in it.
  void end(std::int32_t process_sets) { engines_ += std::int64_t{1} + process_sets; }

  // Returns the number of the last session; 0 if there has been none.
  std::uint64_t last() const { return first_engines_.size(); }
  // Returns the number of the next session's first engine. Call it between sessions.
  std::int64_t next_engine() const { return engines_; }

  // Returns the number before an engine's first handle.
  static std::int64_t before_handles(std::int64_t engine) { return engine * kHandles; }
  // Returns where a handle is from. It is not negative. A number that was never a handle has a
  // place too.
  Place place_of(std::int64_t handle) const {
    const std::int64_t engine = handle / kHandles;
    const auto after = std::upper_bound(first_engines_.begin(), first_engines_.end(), engine);
    if (after == first_engines_.begin()) return {0, 0};
    return {static_cast<std::uint64_t>(after - first_engines_.begin()),
            static_cast<std::int32_t>(engine - *(after - 1))};  // at most 2^23
  }

 private:
  static constexpr std::int64_t kHandles = std::int64_t{1} << 40;  // of an engine

  std::vector<std::int64_t> first_engines_;  // by session
  std::int64_t engines_ = 0;                 // of all sessions that are over
};

}  // namespace libhvd
