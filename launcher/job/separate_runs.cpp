#include "job/separate_runs.hpp"

#include "report/report_text.hpp"

#include <utility>

namespace hvdrun {

std::optional<std::string> SeparateRuns::on_apart(const ApartMessage& message, std::size_t hosts,
                                                  std::size_t ranks) {
  if (message.joined) {
    if (!std::exchange(warned_, false)) return std::nullopt;
    return "the ranks have joined each other since: they are one job";
  }
  add_signs(message);
  if (++hosts_apart_ != hosts || ranks < 2) return std::nullopt;
  warned_ = true;
  Report report;
  report.ranks.resize(ranks);
  add_to(report, hosts);
  return separate_runs_warning(report, SeparateRunsAt::present);
}

void SeparateRuns::on_done(const DoneMessage& done, bool dismissed) {
  if (!dismissed && !done.ranks_joined) ++hosts_without_join_;
  rank_drove_all_gpus_ |= done.gpus.rank_drove_all;
  add_signs(done.apart);
}

void SeparateRuns::add_signs(const ApartMessage& message) {
  signs_.lacks_tf_config |= message.lacks_tf_config;
  signs_.uses_mpich |= message.uses_mpich;
  signs_.lacks_pmix |= message.lacks_pmix;
}

void SeparateRuns::add_to(Report& report, std::size_t hosts) const {
  report.may_be_separate_runs = report.ranks.size() > 1 && hosts_without_join_ == hosts;
  report.rank_drove_all_gpus = rank_drove_all_gpus_;
  report.lacks_tf_config = signs_.lacks_tf_config;
  report.uses_mpich = signs_.uses_mpich;
  report.lacks_pmix = signs_.lacks_pmix;
}

}  // namespace hvdrun
