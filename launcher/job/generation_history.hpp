// What became of a job's generations: made from the actions of a Generations value, for the report
// and for the job's end. A value for its owner's thread; nothing fails. Its owner says what time it
// is, in seconds on a clock of its own.
#pragma once

#include "job/generations.hpp"
#include "model/generation.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hvdrun {

class GenerationHistory {
 public:
  explicit GenerationHistory(std::size_t first_members) { report_.first_members = first_members; }

  void add(const Action& action, double now);

  // The members leave the last generation because they have agreed to: its pause begins.
  void interrupted(double now) {
    if (!interrupted_) interrupted_ = now;
  }

  void add(LostAgentReport loss) { report_.lost_agents.push_back(std::move(loss)); }

  // A member has failed after it had left, and the others have begun another generation since.
  void failed_after_leaving(std::uint32_t member, const std::string& text);

  // How often a member has committed its state, as its status page has it. The members of the last
  // generation do not come any more.
  void committed(std::uint32_t member, std::uint64_t commits);

  // Returns how often the ranks have come together again, with this time. What only takes in new
  // ranks does not count.
  std::size_t resets_with(const action::Go& next) const {
    return resets_ + (is_reset(next) ? 1 : 0);
  }

  // The last generation's time ends at `now`. It has committed if all members have of which that is
  // known: the loss of an agent is no consequence of a loss before it.
  GenerationsReport report(double now) const;

 private:
  void begin(const action::Go& action);
  bool is_reset(const action::Go& next) const;

  GenerationsReport report_;
  std::size_t resets_ = 0;
  std::set<std::size_t> seen_;          // the members of all generations
  std::uint64_t most_commits_ = 0;      // of a member, when the last generation began
  std::vector<std::uint64_t> commits_;  // of the members of the last generation, by rank
  std::optional<double> interrupted_;   // when the last generation was over
  std::optional<double> opened_;        // the last one
};

}  // namespace hvdrun
