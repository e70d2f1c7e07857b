// The C ABI of hvd/timeline.h.
#include "c_api/c_api.hpp"
#include "trace/timed_barrier.hpp"

#include <chrono>
#include <cstdio>

#include <hvd/timeline.h>

namespace libhvd {
namespace {

// Ranks may end at different times, for example when rank 0 saves something at the end. But a rank
// that has failed and ends must not wait for ever for ranks that continue.
constexpr std::chrono::seconds kTimeout{30};

}  // namespace

void end_timeline(Session& session) {
  Timeline& timeline = session.timeline();
  if (!timeline.running()) return;
  Communicator& communicator = session.communicator();
  Result<void> ended = timed_barrier(communicator, kTimeout);
  if (ended.ok()) {
    ended = timeline.stop(communicator);
  } else {
    timeline.abandon();
  }
  if (!ended.ok() && communicator.rank() == 0)
    std::fprintf(stderr, "hvd: no timeline of all ranks: %s\n", ended.error().message.c_str());
}

}  // namespace libhvd

using libhvd::CallOptions;
using libhvd::Result;
using libhvd::Session;

hvd_status hvd_start_timeline(const char* path) {
  return libhvd::collective_of_session(
      "hvd_start_timeline", {}, [=](Session& session, const CallOptions&) {
        return session.timeline().start(session.communicator(), path == nullptr ? "" : path);
      });
}

hvd_status hvd_stop_timeline(void) {
  return libhvd::collective_of_session("hvd_stop_timeline", {},
                                       [](Session& session, const CallOptions&) {
                                         return session.timeline().stop(session.communicator());
                                       });
}

hvd_status hvd_timeline_begin(const char* name) {
  return libhvd::with_session("hvd_timeline_begin", [=](Session& session) -> Result<void> {
    session.timeline().recorder()->begin_span(name == nullptr ? "" : name);
    return {};
  });
}

hvd_status hvd_timeline_end(void) {
  return libhvd::with_session("hvd_timeline_end", [](Session& session) -> Result<void> {
    session.timeline().recorder()->end_span();
    return {};
  });
}
