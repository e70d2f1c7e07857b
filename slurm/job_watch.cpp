#include "slurm/job_watch.hpp"

#include "common/text.hpp"
#include "slurm/job_state.hpp"
#include "slurm/times.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShortestPause{500};
constexpr milliseconds kLongestPause{5000};

// In seconds. SLURM assumes a year for a job without a time limit, so a start that far away is only
// a guess.
constexpr std::time_t kTooFar = std::time_t{360} * 86400;

// Returns the start that SLURM expects; nullopt if it is past or only a guess.
std::optional<std::time_t> expected_start(const JobRecord& job, std::time_t now) {
  if (!job.start || *job.start <= now || *job.start - now >= kTooFar) return std::nullopt;
  return job.start;
}

std::string running_text(const JobRecord& job, std::time_t now) {
  const std::string hosts = job.hosts.empty() ? "" : " on " + escape(job.hosts);
  if (job.state != "RUNNING") return "is " + state_text(job.state, {}) + hosts;
  std::string text = "runs" + hosts;
  if (job.start) text += " since " + moment_text(*job.start, now);
  if (job.limit) text += ", at most " + duration_text(*job.limit);
  return text;
}

// Returns the part of a heterogeneous job that runs the script; any other job itself.
const JobRecord& main_part(const std::vector<JobRecord>& jobs) {
  for (const auto& job : jobs)
    if (std::string_view(job.id).ends_with("+0")) return job;
  return jobs.front();
}

}  // namespace

JobWatch::Lines JobWatch::take(const QueueAnswer& answer, Moment now) {
  if (!changed_) changed_ = now.steady;
  Lines lines;
  if (answer.kind == QueueAnswer::Kind::no_answer) {
    if (!is_away_)
      lines.push_back("SLURM does not answer (" + answer.complaint + "); " + name() +
                      " is not affected, and is asked for again");
    is_away_ = true;
    return lines;
  }
  if (is_away_) lines.emplace_back("SLURM answers again");
  is_away_ = false;
  if (answer.kind == QueueAnswer::Kind::no_such_job) {
    forgotten_ = true;
    return lines;
  }
  const auto& first = answer.jobs.front();
  is_array_ = id_.kind == JobId::Kind::job && first.id.find('_') != std::string::npos;
  auto more = is_array_ ? take_array(answer.jobs, now) : take_job(main_part(answer.jobs), now);
  std::move(more.begin(), more.end(), std::back_inserter(lines));
  return lines;
}

JobWatch::Lines JobWatch::take_job(const JobRecord& job, Moment now) {
  Lines lines;
  const auto phase = phase_of(job.state);
  const bool again =
      job_ && phase == JobPhase::pending && phase_of(job_->state) != JobPhase::pending;
  job_ = job;
  if (phase != JobPhase::pending) has_started_ = true;
  if (phase == JobPhase::ended) {
    const bool start_reported = reported_ && phase_of(reported_->state) == JobPhase::running;
    if (!start_reported && !job.hosts.empty() && job.start)
      lines.push_back(name() + " ran on " + escape(job.hosts) + " from " +
                      moment_text(*job.start, now.wall));
    const auto end = end_of(job);
    end_ = {exit_code_of(end), name() + " " + end_text(end), true};
    return lines;
  }
  if (again) lines.push_back(name() + " was put back into the queue, to be started again");
  if (!is_worth_reporting(job, now.wall)) return lines;
  changed_ = now.steady;
  reported_ = job;
  reported_expected_ = expected_start(job, now.wall);
  lines.push_back(
      name() + " " +
      (phase == JobPhase::pending ? pending_text(job, now.wall) : running_text(job, now.wall)));
  return lines;
}

// Returns whether the job changed so that the user should know. A new estimate of its start is
// reported only if it moved by a minute and by a tenth of the time until the start.
bool JobWatch::is_worth_reporting(const JobRecord& job, std::time_t now) const {
  if (job.state == "COMPLETING") return false;  // it ends in a moment
  if (!reported_ || reported_->state != job.state || reported_->restarts != job.restarts)
    return true;
  if (phase_of(job.state) != JobPhase::pending) return reported_->hosts != job.hosts;
  if (reported_->reason != job.reason) return true;
  const auto expected = expected_start(job, now);
  if (!expected) return false;
  if (!reported_expected_) return true;
  const auto moved =
      std::max(*expected, *reported_expected_) - std::min(*expected, *reported_expected_);
  return moved >= 60 && moved >= (*expected - now) / 10;
}

std::string JobWatch::pending_text(const JobRecord& job, std::time_t now) const {
  std::string text = "is " + state_text(job.state, job.reason);
  if (const auto words = explain_reason(job.reason); !words.empty())
    text += ": " + std::string(words);
  if (depends_on_partition(job.reason) && partition_text_)
    if (const auto offer = partition_text_(job.partition); !offer.empty()) text += "; " + offer;
  if (const auto expected = expected_start(job, now))
    text += "; SLURM expects it to start at " + moment_text(*expected, now) + ", in " +
            duration_text(std::chrono::seconds(*expected - now));
  return text;
}

JobWatch::Lines JobWatch::take_array(const std::vector<JobRecord>& jobs, Moment now) {
  has_started_ = true;
  array_.take(jobs);
  if (array_.all_ended()) {
    end_ = {array_.exit_code(), name() + ", an array: " + array_.end_text(), true};
    return {};
  }
  auto counts = array_.counts_text();
  if (counts == reported_counts_) return {};
  const bool is_first = reported_counts_.empty();
  changed_ = now.steady;
  reported_counts_ = std::move(counts);
  Lines lines = {name() + ": " + reported_counts_};
  if (is_first)
    lines.push_back(name() + " is an array: for the output of one task, hvdrun follow " + id_.text +
                    "_N");
  return lines;
}

void JobWatch::take_accounting(const std::vector<JobEnd>& ends) {
  const bool many =
      id_.kind == JobId::Kind::job &&
      (is_array_ || (ends.size() > 1 && ends.front().id.find('_') != std::string::npos));
  if (many) {
    is_array_ = true;
    array_.close(ends);
    end_ = {array_.exit_code(), name() + ", an array: " + array_.end_text(), true};
    return;
  }
  JobEnd end;
  for (const auto& each : ends)
    if (end.state.empty() || each.id == id_.text) end = each;
  const bool known = job_ || !ends.empty();
  end_ = {exit_code_of(end), name() + " " + end_text(end), known};
}

milliseconds JobWatch::pause(Steady now) const {
  if (!changed_) return kShortestPause;
  const auto since = std::chrono::duration_cast<milliseconds>(now - *changed_);
  return std::clamp(since / 10, kShortestPause, kLongestPause);
}

}  // namespace hvdrun
