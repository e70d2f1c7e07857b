// Looks at this agent's ranks when the launcher asks for it: what their threads do, with stacks.
//
// A process of its own looks, because a look may hang with the process that it reads
// (launcher/look). It is killed when the launcher's limit is over, and what it has printed by then
// is sent. The ranks run on. The agent owns the looker, on its loop thread; the agent reaps the
// process. Without the right to look, or without a process for it, the answer says so.
#pragma once

#include "agent/rank_processes.hpp"
#include "agent/status_pages.hpp"
#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "common/fd.hpp"
#include "protocol/link.hpp"
#include "protocol/messages.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

// The first word of the command line with which hvdrun looks; those of hvdrun-look follow.
inline constexpr std::string_view kLookArgument = "--internal-look";
// Its name, as ps shows it.
inline constexpr char kLookProcess[] = "hvdrun-look";

// Returns the pids of the ranks to look at, at most 64, the most telling first: one of each kind,
// rare kinds before others; then those that are in no collective. `kind_of` says what a process
// does; processes that do the same are of one kind.
std::vector<pid_t> pids_to_look_at(const std::vector<RankState>& states,
                                   const std::function<std::string(pid_t)>& kind_of);

class RankLooker {
 public:
  // `link` must outlive it.
  RankLooker(const EventLoop& loop, Link& link);
  ~RankLooker() { stop(); }

  // Sends what is known of the ranks at once. Begins to look at those that live, and sends the
  // looks later. Ends a look that runs.
  void start(const QuestionMessage& wanted, const StatusPages& pages, const RankProcesses& ranks);

  // Ends a look, without an answer: the ranks have ended, or the agent leaves.
  void stop();

 private:
  Result<void> spawn_looker(const QuestionMessage& wanted);
  void read();
  void send(std::string problem);

  const EventLoop& loop_;
  Link& link_;
  pid_t child_ = 0;  // 0: no look runs
  Fd held_;          // refers to the child, also when the agent has reaped it
  Fd output_;
  FdEvent readable_;
  Timer limit_;
  std::string text_;
  AnswerMessage answer_;
};

}  // namespace hvdrun
