// The end of an attempt: what was left, and what its report says. On the loop thread; nothing
// fails.
#include "base/severity.hpp"
#include "job/attempt.hpp"
#include "job/restart.hpp"
#include "job/stalls.hpp"
#include "job/unreached_hosts.hpp"
#include "report/first_failure.hpp"
#include "report/generations_end.hpp"

#include <chrono>
#include <iterator>
#include <optional>
#include <utility>

namespace hvdrun {

AttemptEnd Attempt::finish() {
  const auto& job = attempt_.job;
  auto& table = attempt_.table;
  auto& agents = *attempt_.agents;
  job.input.stop();
  attempt_.status_line.end();
  attempt_.terminal.end();
  auto spare = job.context.foreign_children;
  if (job.terminal != nullptr) spare.push_back(job.terminal->keeper());
  auto cleaned_up = agents.reap(spare);
  std::move(cleaned_up.begin(), cleaned_up.end(), std::back_inserter(leftovers_));

  AttemptEnd end;
  end.lost_hosts = agents.lost_hosts();
  if (stopping_ && stopping_->agents_were_killed()) {
    for (const auto& line : unconfirmed_lines(agents.unconfirmed_hosts(), table.ranks()))
      attempt_.note(warning_text(line));
  } else {
    end.abandoned = abandoned_text(agents.abandoned_hosts(), job.spec);
  }
  auto& report = end.report;
  report.leftovers = std::move(leftovers_);
  report.gpus = std::move(gpus_);
  report.hardware = agents.hardware();
  if (const auto text = agents.last_note(); !text.empty()) attempt_.note(text);
  const std::chrono::duration<double> time = job.loop.now() - attempt_.begun;
  report.wall_seconds = time.count();
  for (auto& rank : table.ranks()) {
    // An agent that was lost has not closed its ranks' streams.
    for (const auto stream : {Stream::out, Stream::err})
      job.output.close(rank.placement.rank, stream);
    rank.has_terminal = attempt_.terminal.is_of(rank.placement.rank);
    rank.last_stderr = job.output.last_stderr(rank.placement.rank);
    if (!rank.exited) rank.stopped_by_us = true;
  }
  const auto* const membership = running_ ? running_->membership() : nullptr;
  if (membership != nullptr) states_at_stop_ = membership->members_among(states_at_stop_);
  std::optional<StopCause> cause;
  std::optional<LostHost> lost_host;
  if (stopping_) {
    cause = stopping_->cause();
    lost_host = stopping_->lost_host();
  }
  if (cause && (cause->kind == EndKind::interrupted || cause->kind == EndKind::exit_timeout ||
                cause->kind == EndKind::quiet_timeout))
    note_activities(states_at_stop_, table.ranks());
  count_unfinished_collectives(states_at_stop_, table.ranks());
  report.waits = find_waits(states_at_stop_, table.ranks());
  report.hang = hang_.found();
  Verdict verdict;
  if (membership != nullptr) {
    report.generations = membership->report();
    mark_members(*report.generations, table.ranks());
    verdict =
        judge_generations(cause, lost_host, table.ranks(), table.end_order(), *report.generations);
  } else {
    verdict = judge_end(cause, lost_host, table.ranks(), table.end_order());
  }
  end.kind = verdict.kind;
  report.exit_code = verdict.exit_code;
  report.reason = std::move(verdict.reason);
  report.stopped_early = verdict.kind == EndKind::stopped_early;
  if (verdict.first_failure) report.first_failure = static_cast<int>(*verdict.first_failure);
  job.output.settle(report.first_failure);
  for (auto& rank : table.ranks())
    rank.stderr_in_sight = job.output.stderr_in_sight(rank.placement.rank);
  report.ranks = std::move(table.ranks());
  separate_runs_.add_to(report, attempt_.placement().hosts.size());
  return end;
}

}  // namespace hvdrun
