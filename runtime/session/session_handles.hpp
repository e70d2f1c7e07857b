// The sessions of this process, by the numbers of their generations (hvd.h), and the handles of
// collectives in the background. No two engines of a process give the same handle, so a handle of a
// session that is over is never one of a later session.
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

class SessionHandles {
 public:
  // What a handle says.
  struct Place {
    std::uint64_t generation;  // of its session; 0: there has been no session
    std::int32_t process_set;
  };

  // Begins a session, after the end of the one before. `generation`: its number, larger than those
  // before.
  void begin(std::uint64_t generation) { sessions_.push_back({generation, engines_}); }
  // Ends it. `process_sets`: how many were made in it.
  void end(std::int32_t process_sets) { engines_ += std::int64_t{1} + process_sets; }

  // Returns the generation of the last session; 0 if there has been none.
  std::uint64_t last() const { return sessions_.empty() ? 0 : sessions_.back().generation; }
  // Returns the number of the next session's first engine. Call it between sessions.
  std::int64_t next_engine() const { return engines_; }

  // Returns the number before an engine's first handle.
  static std::int64_t before_handles(std::int64_t engine) { return engine * kHandles; }
  // Returns where a handle is from. It is not negative. A number that was never a handle has a
  // place too.
  Place place_of(std::int64_t handle) const {
    const std::int64_t engine = handle / kHandles;
    const auto after = std::upper_bound(
        sessions_.begin(), sessions_.end(), engine,
        [](std::int64_t wanted, const Begun& session) { return wanted < session.first_engine; });
    if (after == sessions_.begin()) return {0, 0};
    const Begun& session = *(after - 1);
    return {session.generation,
            static_cast<std::int32_t>(engine - session.first_engine)};  // at most 2^23
  }

 private:
  static constexpr std::int64_t kHandles = std::int64_t{1} << 40;  // of an engine

  struct Begun {
    std::uint64_t generation;
    std::int64_t first_engine;
  };
  std::vector<Begun> sessions_;
  std::int64_t engines_ = 0;  // of all sessions that are over
};

}  // namespace libhvd
