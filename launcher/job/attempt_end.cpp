// The end of an attempt: what was left, and what its report says. On the loop thread; nothing
// fails.
#include "base/severity.hpp"
#include "job/attempt.hpp"
#include "job/restart.hpp"
#include "job/stalls.hpp"
#include "job/unreached_hosts.hpp"
#include "report/first_failure.hpp"

#include <chrono>
#include <iterator>
#include <utility>

namespace hvdrun {

AttemptEnd Attempt::finish() {
  parts_.input.stop();
  status_line_.end();
  terminal_.end();
  auto spare = parts_.context.foreign_children;
  if (parts_.terminal != nullptr) spare.push_back(parts_.terminal->keeper());
  auto cleaned_up = agents_->reap(spare);
  std::move(cleaned_up.begin(), cleaned_up.end(), std::back_inserter(leftovers_));

  AttemptEnd end;
  end.lost_hosts = agents_->lost_hosts();
  if (agents_killed_) {
    for (const auto& line : unconfirmed_lines(agents_->unconfirmed_hosts(), table_.ranks()))
      note(warning_text(line));
  } else {
    end.abandoned = abandoned_text(agents_->abandoned_hosts(), parts_.spec);
  }
  auto& report = end.report;
  report.leftovers = std::move(leftovers_);
  report.gpus = std::move(gpus_);
  report.hardware = agents_->hardware();
  if (const auto text = agents_->last_note(); !text.empty()) note(text);
  const std::chrono::duration<double> time = parts_.loop.now() - begun_;
  report.wall_seconds = time.count();
  for (auto& rank : table_.ranks()) {
    // An agent that was lost has not closed its ranks' streams.
    for (const auto stream : {Stream::out, Stream::err})
      parts_.output.close(rank.placement.rank, stream);
    rank.has_terminal = terminal_.is_of(rank.placement.rank);
    rank.last_stderr = parts_.output.last_stderr(rank.placement.rank);
    rank.stderr_in_sight = parts_.output.stderr_in_sight(rank.placement.rank);
    if (!rank.exited) rank.stopped_by_us = true;
  }
  if (cause_ && (cause_->kind == EndKind::interrupted || cause_->kind == EndKind::exit_timeout))
    note_activities(states_at_stop_, table_.ranks());
  count_unfinished_collectives(states_at_stop_, table_.ranks());
  report.waits = find_waits(states_at_stop_, table_.ranks());
  auto verdict = judge_end(cause_, lost_host_, table_.ranks(), table_.end_order());
  end.kind = verdict.kind;
  report.exit_code = verdict.exit_code;
  report.reason = std::move(verdict.reason);
  report.stopped_early = verdict.kind == EndKind::stopped_early;
  if (verdict.first_failure) report.first_failure = static_cast<int>(*verdict.first_failure);
  report.ranks = std::move(table_.ranks());
  separate_runs_.add_to(report, placement().hosts.size());
  return end;
}

}  // namespace hvdrun
