// --quiet-timeout: ends a job that does nothing for a time: its ranks print nothing, complete no
// collective and use no processor. While the job is silent, the agents say what their ranks use. An
// agent that does not answer shows no work of its ranks.
//
// The attempt owns it. Loop thread only; nothing fails. Without the option it does nothing.
#pragma once

#include "base/event_loop.hpp"
#include "job/attempt_phase.hpp"
#include "job/question.hpp"
#include "job/quiet_time.hpp"

#include <chrono>

namespace hvdrun {

class QuietWatch {
 public:
  // `attempt` must outlive it.
  explicit QuietWatch(AttemptParts& attempt);

  void begin();  // the ranks run, or run again
  void end();
  void on_output() { has_printed_ = true; }

 private:
  void begin_anew();
  void look();
  void judge(const Answers& answers);
  std::chrono::milliseconds interval() const;

  AttemptParts& attempt_;
  bool has_printed_ = false;  // since the last look
  QuietTime time_;
  Question question_;
  Timer timer_;
};

}  // namespace hvdrun
