// Reports the ends of ranks to the launcher. A rank that seems to have left PMIx without finalize
// is reported when libpmix's thread has read everything that it sent.
//
// The agent owns it. Loop thread only; nothing fails.
#pragma once

#include "agent/pmix_server.hpp"
#include "base/event_loop.hpp"
#include "protocol/link.hpp"
#include "protocol/messages.hpp"

#include <functional>
#include <map>

namespace hvdrun {

class RankEnds {
 public:
  // `on_late_report`: called after the report of a rank that had to wait. `link` must outlive it.
  RankEnds(const EventLoop& loop, Link& link, std::function<void()> on_late_report);

  // Reports a rank's end, now or later. Sets ExitedMessage::lost_connection. `pmix` may be null;
  // otherwise it must outlive the wait.
  void report(ExitedMessage message, PmixServer* pmix);

  bool all_reported() const { return unsettled_.empty(); }

 private:
  void report_settled(int rank);

  struct Unsettled {
    ExitedMessage message;
    PmixServer* pmix;
  };
  Link& link_;
  std::function<void()> on_late_report_;
  std::map<int, Unsettled> unsettled_;  // by rank
  Timer timer_;
};

}  // namespace hvdrun
