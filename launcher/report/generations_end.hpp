// How a job has ended that continues when ranks are lost (--min-np), and what is said of a loss
// that was repaired. Pure functions.
#pragma once

#include "model/generation.hpp"
#include "report/first_failure.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

// Returns the verdict, as judge_end() does. `ranks`: of all members, by their numbers.
//
// The job has succeeded if every member of the last generation and every member that had left
// exited with 0. A loss is repaired when a later generation has committed its state. Losses that
// were not repaired form a chain, up to the job's end. The first one is to blame; among those of
// one generation, the one that find_first_failure() finds. A rank that hvdrun ended is to blame
// before one that failed because of another.
Verdict judge_generations(const std::optional<StopCause>& cause,
                          const std::optional<LostHost>& lost_host,
                          const std::vector<RankReport>& ranks,
                          const std::vector<std::size_t>& order,
                          const GenerationsReport& generations);

// Sets RankReport::continued_without, never_joined and seconds_with_others. `ranks`: of all
// members, by their numbers.
void mark_members(const GenerationsReport& generations, std::vector<RankReport>& ranks);

// A change of the job's ranks after which it continued: losses, new ranks, or both.
struct Repair {
  struct Lost {
    std::uint32_t rank = 0;
    std::string host;
    std::string how;  // describe_end(); empty: it has left in order
  };
  struct Renumbered {
    std::uint32_t member = 0;  // its rank at the start of the job, as hvdrun's lines have it
    std::uint32_t rank = 0;
  };
  struct Joined {
    std::uint32_t member = 0;
    std::string host;
    std::uint32_t rank = 0;  // in the program
  };
  std::vector<Lost> lost;
  std::size_t size = 0;    // of the new generation
  std::uint64_t step = 0;  // of the training; 0: it has not reported any
  double pause_seconds = 0;
  std::vector<Renumbered> renumbered = {};
  std::vector<Joined> joined = {};
};

// Returns "rank 3 on n2 was lost (killed by SIGKILL)", or "rank 3 on n2 (killed by SIGKILL), rank 1
// on n1 (exit code 1) were lost"; "" without losses.
std::string describe_losses(const std::vector<Repair::Lost>& lost);

// Returns a line for the user: "rank 3 on n2 was lost (killed by SIGKILL): 7 ranks continue from
// step 1204 after 9 ms; rank 7 is now rank 3 in the program". If ranks have joined: "new rank 8 on
// n1 has joined: 8 ranks continue from step 1204 after 5 ms; rank 8 is rank 3 in the program".
std::string describe_repair(const Repair& repair);

}  // namespace hvdrun
