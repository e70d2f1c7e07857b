#include "slurm/array_tasks.hpp"

#include "base/result.hpp"
#include "common/text.hpp"
#include "slurm/job_id.hpp"
#include "slurm/job_state.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

namespace hvdrun {
namespace {

// Returns a task's number in its array, such as 3 for "12_3"; nullopt for a list of tasks.
std::optional<std::uint32_t> task_of(std::string_view id) {
  const auto line = id.find('_');
  if (line == std::string_view::npos) return std::nullopt;
  std::uint32_t task = 0;
  const auto [end, error] = std::from_chars(id.data() + line + 1, id.data() + id.size(), task);
  if (error != std::errc{} || end != id.data() + id.size()) return std::nullopt;
  return task;
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
      // The task ended, and the queue dropped it, since the last answer.
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

}  // namespace hvdrun
