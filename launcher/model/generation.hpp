// The generations of a job that continues when ranks are lost (--min-np), as its end and its report
// need them. Plain values, made by job/ and read by report/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hvdrun {

// A member's number is also its index into the reports.
struct LostMemberReport {
  std::size_t member = 0;
  std::string text;  // "was killed by SIGKILL"
};

struct GenerationReport {
  std::uint32_t number = 0;
  std::vector<std::size_t> members = {};  // in the order of ranks
  std::vector<std::size_t> joined =
      {};  // those of them that were in none before; in the first: those that were started later
  // Members that were lost before the next generation began, in the order in which it was known,
  // and those that had left with hvd_shutdown and then failed.
  std::vector<LostMemberReport> lost = {};
  bool committed = false;    // its members have committed in it, as far as known
  std::uint64_t step = 0;    // of the training, when it began
  double seconds = 0;        // since it was open
  double pause_seconds = 0;  // from the loss that ended the one before it until it was open
};

// An agent that was lost, or could not do its work, and the members that were lost with it.
struct LostAgentReport {
  std::vector<std::size_t> members = {};
  std::string reason;     // "the agent on n2 was lost: killed by SIGKILL"
  double last_heard = 0;  // on the clock of RankReport::failed_after
};

struct GenerationsReport {
  std::size_t first_members = 0;                     // the members that the job began with
  std::vector<LostMemberReport> lost_at_start = {};  // before the first generation began
  std::vector<GenerationReport> generations = {};
  std::vector<LostAgentReport> lost_agents = {};
};

}  // namespace hvdrun
