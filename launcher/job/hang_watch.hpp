// Finds out why the job hangs: asks the agents to look at their ranks, and judges what they answer
// (launcher/hang). The user learns it when ranks wait for too long, on Ctrl-\, and before a job
// that seems to hang is stopped.
//
// The attempt owns it. Loop thread only; nothing fails. A host that does not answer in time is
// named, and the others are judged.
#pragma once

#include "base/event_loop.hpp"
#include "hang/wait_memory.hpp"
#include "job/attempt_phase.hpp"
#include "job/question.hpp"
#include "model/hang_report.hpp"
#include "protocol/messages.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

class HangWatch {
 public:
  using Done = std::function<void(const HangReport&)>;
  // Returns those of the states that are of members; see Membership::members_among().
  using Members = std::function<std::vector<RankState>(std::vector<RankState>)>;

  // `attempt` must outlive it.
  HangWatch(AttemptParts& attempt, Members members);
  ~HangWatch();
  HangWatch(const HangWatch&) = delete;
  HangWatch& operator=(const HangWatch&) = delete;

  // Looks at all ranks for another process (`hvdrun why`), and calls `done` from the loop, also if
  // the attempt ends meanwhile.
  void ask(Done done);

  // Ranks have waited for too long in a collective. The first time, prints the verdict.
  void on_stall();
  // The user asks (SIGQUIT).
  void on_question();
  void on_output() { last_output_ = attempt_.job.loop.now(); }

  // Calls `stop`, before which it prints the verdict if the job seems to hang. Nothing then takes
  // longer than two seconds.
  void before_stop(const StopCause& cause, std::function<void()> stop);
  // Ends a look that runs: the user does not want to wait.
  void cut() { question_.cut(); }

  // The last verdict on a job that hangs, or is slow; nullopt: there was none.
  const std::optional<HangReport>& found() const { return found_; }

 private:
  struct Asker {
    Done done;
    bool is_outside = false;  // it outlives the attempt
  };

  // Looks at all ranks, and calls `asker` from the loop, at the latest after `limit`. Who asks
  // while a look runs gets its result.
  void look(std::chrono::milliseconds limit, Asker asker);
  bool seems_to_hang(const StopCause& cause) const;
  void print(const HangReport& report, bool is_asked);
  void finish(const Answers& answers);
  HangReport judge(const Answers& answers);
  void leave_out_others(std::vector<RankFacts>& ranks) const;
  // Returns the numbers of the ranks that run there: "4-7".
  std::string ranks_on(std::size_t host) const;

  AttemptParts& attempt_;
  const Members members_;
  EventLoop::Clock::time_point last_output_;
  bool stalled_ = false;
  std::vector<Asker> askers_;  // of the look that runs; empty: none runs
  std::optional<HangReport> found_;
  bool has_printed_ = false;  // the last verdict
  WaitMemory waits_;
  Question question_;
};

}  // namespace hvdrun
