// Which rank came last to each collective. When all others wait for one rank, this is the one to
// look at.
#pragma once

#include "base/result.hpp"
#include "collective/call.hpp"
#include "collective/communicator.hpp"
#include "common/clock.hpp"
#include "trace/recorder.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace libhvd {

// When this rank came to a collective.
struct Arrival {
  StreamId stream;
  std::uint32_t sequence;
  std::int64_t at_ns;  // since the recording began, by rank 0's clock
};

struct LastArrival {
  int rank;
  std::int64_t at_ns;
};

class LastArrivals {
 public:
  // Nothing: no rank has recorded it.
  std::optional<LastArrival> find(StreamId stream, std::uint32_t sequence) const;

  // Of all ranks. Collective.
  static Result<LastArrivals> among(Communicator& communicator, std::span<const Arrival> own);

 private:
  // A stream's part that some rank has recorded. A value tells when and who, and is the greater the
  // later; -1: nobody.
  struct Stretch {
    std::uint32_t first = 0;
    std::vector<std::int64_t> latest;
  };

  std::map<StreamId, Stretch> streams_;
};

// What the collectives tell the recorder.

// The blocking collectives of a process set. All are counted, recorded or not, as their numbers
// must be those of the other ranks. One call at a time.
class CallTrace {
 public:
  explicit CallTrace(Recorder& recorder, std::uint16_t process_set = 0)
      : recorder_(recorder), stream_(call_stream(process_set)) {}

  // Before one. When it began; 0 when nothing is recorded.
  std::uint64_t begin() {
    ++sequence_;
    return recorder_.on() ? recorder_.own_lane().now_ns() : 0;
  }

  // After it, on the same thread. `kind`: "allreduce"; `name` may be null.
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
    recorder_.own_lane().add_ended(event, kind, name == nullptr ? "" : name, recorder_.room());
  }

 private:
  Recorder& recorder_;
  StreamId stream_;
  std::uint32_t sequence_ = 0;
};

// What the engine does for a process set. Tell it of everything, recorded or not: it counts, and
// the numbers must be those of the other ranks. One thread at a time but for submission_ns().
class EngineTrace {
 public:
  explicit EngineTrace(std::shared_ptr<Recorder> recorder, std::uint16_t process_set = 0)
      : recorder_(std::move(recorder)),
        lane_(recorder_->lane_of_engine(process_set)),
        stream_(engine_stream(process_set)) {}

  // When something is submitted, for negotiated(); 0 when nothing is recorded. Any thread.
  std::uint64_t submission_ns() const { return recorder_->on() ? monotonic_ns() : 0; }

  // All ranks have submitted it. In the order in which executed() follows, for each once.
  void negotiated(std::string_view kind, std::string_view name, std::uint64_t submitted_ns);

  // Before it is carried out.
  std::uint64_t begin() { return recorder_->on() ? lane_->now_ns() : 0; }
  // After it.
  void executed(std::uint64_t begin_ns, std::string_view kind, std::string_view name,
                const CallFacts& facts, bool completed);
  // After several that were carried out as one.
  void executed_fused(std::uint64_t begin_ns, std::string_view kind, std::uint32_t count,
                      const CallFacts& facts, bool completed);

 private:
  Event operation(std::uint64_t begin_ns, const CallFacts& facts, bool completed) const;

  std::shared_ptr<Recorder> recorder_;  // an engine may outlive its session
  std::shared_ptr<Lane> lane_;
  StreamId stream_;
  std::uint32_t negotiated_ = 0;
  std::uint32_t executed_ = 0;
};

}  // namespace libhvd
