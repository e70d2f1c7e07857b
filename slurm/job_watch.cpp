#include "slurm/job_watch.hpp"

#include "common/text.hpp"
#include "slurm/job_record.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace hvdrun {
namespace {

// The number in the array of "12_3"; none for a list of tasks.
std::optional<std::uint32_t> task_of(std::string_view id) {
  const auto line = id.find('_');
  if (line == std::string_view::npos) return std::nullopt;
  std::uint32_t task = 0;
  const auto [end, error] = std::from_chars(id.data() + line + 1, id.data() + id.size(), task);
  if (error != std::errc{} || end != id.data() + id.size()) return std::nullopt;
  return task;
}

using std::chrono::milliseconds;

constexpr milliseconds kShortestPause{500};
constexpr milliseconds kLongestPause{5000};

// SLURM takes a year for a job without a time limit: a start that far away is a guess.
constexpr std::time_t kTooFar = std::time_t{360} * 86400;

// The start that SLURM expects, where that is worth saying.
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

// Of a heterogeneous job the part that runs the script.
const JobRecord& main_part(const std::vector<JobRecord>& jobs) {
  for (const auto& job : jobs)
    if (std::string_view(job.id).ends_with("+0")) return job;
  return jobs.front();
}

}  // namespace

void ArrayTasks::take(const std::vector<JobRecord>& jobs) {
  waiting_ = 0;
  reason_.clear();
  std::size_t never_ran = 0;
  std::set<std::uint32_t> listed;
  for (const auto& job : jobs) {
    const auto task = task_of(job.id);
    const auto phase = phase_of(job.state);
    if (!task || phase == JobPhase::pending) {
      (phase == JobPhase::ended ? never_ran : waiting_) += std::max(count_tasks(job.id), 1u);
      if (phase == JobPhase::ended) continue;
      if (reason_.empty() && job.reason != "None") reason_ = job.reason;
      if (task) tasks_.erase(*task);  // it was put back into the queue
      continue;
    }
    listed.insert(*task);
    tasks_[*task] = {phase == JobPhase::ended, end_of(job)};
  }
  never_ran_ = std::max(never_ran_, never_ran);
  running_ = 0;
  for (auto& [number, task] : tasks_) {
    if (!task.ended && listed.count(number) == 0) {
      // It ended and was forgotten since the last answer.
      task.ended = true;
      task.end.state.clear();
    }
    if (!task.ended) ++running_;
  }
}

void ArrayTasks::close(const std::vector<JobEnd>& ends) {
  for (const auto& end : ends)
    if (const auto task = task_of(end.id)) tasks_[*task] = {true, end};
  for (auto& [number, task] : tasks_) {
    if (!task.ended) task.end.state.clear();
    task.ended = true;
  }
  waiting_ = 0;
  running_ = 0;
}

std::string ArrayTasks::counts_text() const {
  std::string text;
  const auto add = [&text](const std::string& piece) {
    text += (text.empty() ? "" : ", ") + piece;
  };
  if (waiting_ > 0)
    add(plural(waiting_, "task") + (waiting_ == 1 ? " waits" : " wait") +
        (reason_.empty() ? "" : " (" + escape(reason_) + ")"));
  if (running_ > 0) add(plural(running_, "task") + (running_ == 1 ? " runs" : " run"));
  if (ended() > 0) add(plural(ended(), "task") + (ended() == 1 ? " has" : " have") + " ended");
  return text;
}

const JobEnd* ArrayTasks::first_failure() const {
  for (const auto& [number, task] : tasks_)
    if (task.ended && exit_code_of(task.end) != 0) return &task.end;
  return nullptr;
}

int ArrayTasks::exit_code() const {
  const auto* failure = first_failure();
  if (failure != nullptr) return exit_code_of(*failure);
  return never_ran_ > 0 ? exit_code_of({{}, "CANCELLED", {}, {}}) : kExitOk;
}

std::string ArrayTasks::end_text() const {
  std::size_t failed = 0;
  for (const auto& [number, task] : tasks_) failed += exit_code_of(task.end) == 0 ? 0 : 1;
  std::string text = plural(tasks_.size() - failed, "task") + " succeeded";
  if (never_ran_ > 0) text += ", " + std::to_string(never_ran_) + " never ran";
  if (const auto* failure = first_failure(); failure != nullptr)
    text += ", " + std::to_string(failed) + " did not; the first, " + escape(failure->id) + ", " +
            hvdrun::end_text(*failure);
  return text;
}

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
    const bool was_told = said_ && phase_of(said_->state) == JobPhase::running;
    if (!was_told && !job.hosts.empty() && job.start)
      lines.push_back(name() + " ran on " + escape(job.hosts) + " from " +
                      moment_text(*job.start, now.wall));
    const auto end = end_of(job);
    end_ = {exit_code_of(end), name() + " " + end_text(end), true};
    return lines;
  }
  if (again) lines.push_back(name() + " was put back into the queue, to be started again");
  if (!is_news(job, now.wall)) return lines;
  changed_ = now.steady;
  said_ = job;
  said_expected_ = expected_start(job, now.wall);
  lines.push_back(
      name() + " " +
      (phase == JobPhase::pending ? pending_text(job, now.wall) : running_text(job, now.wall)));
  return lines;
}

// Not each new estimate is: one that has moved by a tenth of the time to go, and a minute.
bool JobWatch::is_news(const JobRecord& job, std::time_t now) const {
  if (job.state == "COMPLETING") return false;  // it ends in a moment
  if (!said_ || said_->state != job.state || said_->restarts != job.restarts) return true;
  if (phase_of(job.state) != JobPhase::pending) return said_->hosts != job.hosts;
  if (said_->reason != job.reason) return true;
  const auto expected = expected_start(job, now);
  if (!expected) return false;
  if (!said_expected_) return true;
  const auto moved = std::max(*expected, *said_expected_) - std::min(*expected, *said_expected_);
  return moved >= 60 && moved >= (*expected - now) / 10;
}

std::string JobWatch::pending_text(const JobRecord& job, std::time_t now) const {
  std::string text = "is " + state_text(job.state, job.reason);
  if (const auto words = explain_reason(job.reason); !words.empty())
    text += ": " + std::string(words);
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
  if (counts == said_counts_) return {};
  const bool is_first = said_counts_.empty();
  changed_ = now.steady;
  said_counts_ = std::move(counts);
  Lines lines = {name() + ": " + said_counts_};
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
