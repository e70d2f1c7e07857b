// What the hosts' agents say of ranks that were not seen to join others. Ranks of several hosts may
// be separate runs only if the agents of all hosts say so.
//
// A value of the attempt, on the launcher's loop thread. It cannot fail.
#pragma once

#include "model/report.hpp"
#include "protocol/messages.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace hvdrun {

class SeparateRuns {
 public:
  // Takes what a host's agent says while its ranks run. Returns the warning to print once all
  // `hosts` have said that its ranks are apart, and a line that takes it back when ranks join.
  std::optional<std::string> on_apart(const ApartMessage& message, std::size_t hosts,
                                      std::size_t ranks);

  // Takes what a host's agent says at its end.
  void on_done(const DoneMessage& done, bool dismissed);

  // Adds what is known at the end of the ranks, which are in the report already.
  void add_to(Report& report, std::size_t hosts) const;

 private:
  void add_signs(const ApartMessage& message);

  ApartMessage signs_;
  bool rank_drove_all_gpus_ = false;
  std::size_t hosts_apart_ = 0;  // while their ranks run
  bool warned_ = false;
  std::size_t hosts_without_join_ = 0;  // at their end
};

}  // namespace hvdrun
