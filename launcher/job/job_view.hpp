// What other processes of the user may see of a running job: the answers to the requests that come
// over its socket (control/), and --metrics. Each word that can be asked is a row in the table of
// job_view.cpp.
//
// The job owns it, on its loop thread. Nothing fails: without a socket the job runs all the same,
// and a warning says what is missing.
#pragma once

#include "base/event_loop.hpp"
#include "control/control_server.hpp"
#include "job/attempt.hpp"
#include "job/job_context.hpp"
#include "job/job_metrics.hpp"
#include "job/plan.hpp"
#include "job/question.hpp"
#include "job/rank_environment.hpp"
#include "model/job_now.hpp"
#include "model/job_spec.hpp"
#include "output/output.hpp"

#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

class JobView {
 public:
  // The job's parts. All must outlive the view.
  struct Job {
    const JobSpec& spec;
    const JobContext& context;
    const Plan& plan;
    const EventLoop& loop;
    const JobIdentity& identity;
    Output& output;
    const std::unique_ptr<Attempt>& attempt;  // null between two
    const bool& over;                         // only output is still to be shown
  };

  // Opens the socket a moment later: a short job needs none, and a start is not delayed.
  explicit JobView(Job job);
  // Sends the last output to those who follow it.
  ~JobView();
  JobView(const JobView&) = delete;
  JobView& operator=(const JobView&) = delete;

 private:
  struct Words;
  void open();
  void answer(const ControlRequest& request, ControlAnswer answer);
  void about(const ControlJson& arguments, const ControlAnswer& answer);
  void why(const ControlJson& arguments, const ControlAnswer& answer);
  void state(const ControlJson& arguments, const ControlAnswer& answer);
  void logs(const ControlJson& arguments, const ControlAnswer& answer);
  std::string logs_after(std::uint64_t number, std::uint64_t& last) const;
  std::string phase() const;
  int ranks_in_all() const;
  void count_roles(JobAbout& about) const;
  JobAbout describe() const;
  void with_state(std::function<void()> ready);
  void ask_agents();
  void answer_state(const Answers& answers);

  const Job job_;
  const std::time_t begun_;
  const EventLoop::Clock::time_point begun_at_;
  std::unique_ptr<ControlServer> server_;
  Timer open_timer_;

  struct Follower {
    std::uint64_t last = 0;  // chunk that it has got
    ControlAnswer answer;
  };
  std::map<int, Follower> followers_;  // of the output, by pid

  // The state of the job. All who ask within a moment get the same.
  std::optional<JobNow> state_;  // nullopt: none was made yet
  std::string state_text_;       // as JSON; "": not made yet
  EventLoop::Clock::time_point state_made_;
  std::vector<std::function<void()>> asking_;
  Question question_;
  std::optional<JobMetrics> metrics_;  // --metrics
};

}  // namespace hvdrun
