#include "trace/call_trace.hpp"

#include <algorithm>

namespace libhvd {

void EngineTrace::cycle() {
  if (!recorder_->marks_cycles()) return;
  const Event event{.begin_ns = track_->now_ns(), .kind = EventKind::cycle};
  track_->add(event, "", "", recorder_->room());
}

void EngineTrace::negotiated(std::string_view kind, std::string_view name,
                             std::uint64_t submitted_ns) {
  ++negotiated_;
  if (submitted_ns == 0 || !recorder_->on()) return;
  Event event{.begin_ns = submitted_ns,
              .sequence = negotiated_,
              .stream = stream_,
              .kind = EventKind::negotiation};
  // Two clocks, which may be a microsecond apart.
  event.duration_ns = std::max(submitted_ns, track_->now_ns()) - submitted_ns;
  track_->add(event, kind, name, recorder_->room());
}

void EngineTrace::executed(std::uint64_t begin_ns, std::string_view kind, std::string_view name,
                           const CallFacts& facts, bool completed) {
  ++executed_;
  if (begin_ns == 0) return;
  track_->add_ended(operation(begin_ns, facts, completed), kind, name, recorder_->room());
}

void EngineTrace::executed_fused(std::uint64_t begin_ns, std::string_view kind, std::uint32_t count,
                                 const CallFacts& facts, bool completed) {
  ++executed_;
  Event event = operation(begin_ns, facts, completed);
  executed_ += count - 1;
  if (begin_ns == 0) return;
  event.fused = true;
  event.name = count;
  track_->add_ended(event, kind, "", recorder_->room());
}

Event EngineTrace::operation(std::uint64_t begin_ns, const CallFacts& facts, bool completed) const {
  return {.begin_ns = begin_ns,
          .bytes = facts.bytes,
          .sequence = executed_,
          .stream = stream_,
          .kind = EventKind::operation,
          .type = facts.type,
          .op = facts.op,
          .failed = !completed};
}

}  // namespace libhvd
