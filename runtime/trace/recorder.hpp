// What a rank records while its timeline is on: from any thread, into memory that is bounded; what
// comes when that is full is counted and dropped. Off, each call costs one relaxed load.
//
// Every thread has a lane of its own, and so has each engine, which works on whichever thread waits
// for it.
#pragma once

#include "trace/event.hpp"
#include "trace/lane.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace libhvd {

class Recorder {
 public:
  static constexpr std::size_t kDefaultBytes = std::size_t{64} << 20;

  Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  bool on() const { return on_.load(std::memory_order_relaxed); }

  // Begins anew, with room for so many bytes of events and names. The calling thread is the
  // program's in the timeline, when no other one is yet.
  void start(std::size_t bytes = kDefaultBytes);
  void stop() { on_.store(false, std::memory_order_relaxed); }
  // What was recorded since start(); after stop().
  Recording take();

  // Of the program, on the calling thread's lane.
  void begin_span(std::string_view name);
  void end_span();
  void mark(EventKind kind, std::uint64_t number);

  // For CallTrace and EngineTrace, while it is on.
  Lane& own_lane();
  // A new one for the engine of a process set, to be kept as long as that; set 0 has one already.
  std::shared_ptr<Lane> lane_of_engine(std::uint16_t process_set);
  EventRoom& room() { return room_; }

 private:
  std::shared_ptr<Lane> find_lane();
  void drop_ended();

  const std::uint64_t id_;  // of no other recorder of the process
  std::atomic<bool> on_{false};
  EventRoom room_;
  const std::shared_ptr<Lane> engine_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::shared_ptr<Lane>> lanes_;
  std::vector<std::shared_ptr<Lane>> set_lanes_;  // of the engines of process sets
};

}  // namespace libhvd
