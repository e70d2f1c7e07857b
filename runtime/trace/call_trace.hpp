// Numbers collectives, and records them while the timeline is on. Ranks compare these numbers, so
// all collectives must pass through here, recorded or not.
#pragma once

#include "collective/call.hpp"
#include "common/clock.hpp"
#include "trace/recorder.hpp"

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace libhvd {

// The blocking collectives of a process set. One call at a time.
class CallTrace {
 public:
  explicit CallTrace(Recorder& recorder, std::uint16_t process_set = 0)
      : recorder_(recorder), stream_(call_stream(process_set)) {}

  // Call it before a collective. Returns the time for end(); 0 while nothing is recorded.
  std::uint64_t begin() {
    ++sequence_;
    return recorder_.on() ? recorder_.own_track().now_ns() : 0;
  }

  // Call it after the collective, on the same thread. `kind`: "allreduce"; `name` may be null.
  void end(std::uint64_t begin_ns, std::string_view kind, const char* name, const CallFacts& facts,
           bool completed) {
    if (begin_ns == 0) return;
    Event event{.begin_ns = begin_ns,
                .bytes = facts.bytes,
                .sequence = sequence_,
                .stream = stream_,
                .kind = EventKind::call,
                .type = facts.type,
                .op = facts.op,
                .failed = !completed};
    recorder_.own_track().add_ended(event, kind, name == nullptr ? "" : name, recorder_.room());
  }

 private:
  Recorder& recorder_;
  StreamId stream_;
  std::uint32_t sequence_ = 0;
};

// The collectives that the engine of a process set runs. One thread at a time, except
// submission_ns().
class EngineTrace {
 public:
  explicit EngineTrace(std::shared_ptr<Recorder> recorder, std::uint16_t process_set = 0)
      : recorder_(std::move(recorder)),
        track_(recorder_->track_of_engine(process_set)),
        stream_(engine_stream(process_set)) {}

  // Returns the time of a submission, for negotiated(); 0 while nothing is recorded. Any thread.
  std::uint64_t submission_ns() const { return recorder_->on() ? monotonic_ns() : 0; }

  // Call it at the begin of a round.
  void cycle();

  // Call it when all ranks have submitted the collective: once for each, in the order of execution.
  void negotiated(std::string_view kind, std::string_view name, std::uint64_t submitted_ns);

  // Call it before the collective runs. Returns the time for executed().
  std::uint64_t begin() { return recorder_->on() ? track_->now_ns() : 0; }
  // Call it after the collective.
  void executed(std::uint64_t begin_ns, std::string_view kind, std::string_view name,
                const CallFacts& facts, bool completed);
  // Call it after `count` collectives that ran as one.
  void executed_fused(std::uint64_t begin_ns, std::string_view kind, std::uint32_t count,
                      const CallFacts& facts, bool completed);

 private:
  Event operation(std::uint64_t begin_ns, const CallFacts& facts, bool completed) const;

  std::shared_ptr<Recorder> recorder_;  // shared, because an engine may outlive its session
  std::shared_ptr<Track> track_;
  StreamId stream_;
  std::uint32_t negotiated_ = 0;
  std::uint32_t executed_ = 0;
};

}  // namespace libhvd
