// --quiet-timeout: ends a job that does nothing for a time: its ranks print nothing, complete no
// collective and use no processor. While the job is silent, the agents say what their ranks use.
//
// The attempt owns it. Loop thread only; nothing fails. Without the option it does nothing.
#pragma once

#include "base/event_loop.hpp"
#include "job/attempt_phase.hpp"
#include "job/quiet_time.hpp"
#include "job/rank_states.hpp"
#include "protocol/messages.hpp"

#include <chrono>
#include <cstddef>

namespace hvdrun {

class QuietWatch {
 public:
  // `attempt` must outlive it.
  explicit QuietWatch(AttemptParts& attempt);

  void begin();  // the ranks run, or run again
  void end() { timer_.cancel(); }
  void on_output() { has_printed_ = true; }
  // A host has answered what its ranks have used.
  void take(std::size_t host, const StatesMessage& message);
  // It will not answer.
  void lose(std::size_t host);

 private:
  void begin_anew();
  void look();
  void judge(const StateAnswers::Answer& states);
  std::chrono::milliseconds interval() const;

  AttemptParts& attempt_;
  bool has_printed_ = false;  // since the last look
  QuietTime time_;
  StateAnswers answers_;
  Timer timer_;
};

}  // namespace hvdrun
