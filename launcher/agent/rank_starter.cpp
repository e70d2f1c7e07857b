#include "agent/rank_starter.hpp"

#include "agent/rank_variables.hpp"
#include "base/environment.hpp"
#include "base/severity.hpp"
#include "base/system.hpp"
#include "common/system.hpp"

#include <chrono>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <sys/wait.h>

namespace hvdrun {
namespace {

constexpr int kCannotStart = 126;

Result<std::vector<std::string>> environment_of(const RankStarter& parts, std::size_t index) {
  std::vector<std::string> changes;
  if (parts.pmix != nullptr) {
    HVD_TRY(changes, parts.pmix->environment_of(parts.job.ranks[index].rank));
  }
  std::ranges::move(rank_variables(parts.folders, parts.job, parts.pages, parts.members, index),
                    std::back_inserter(changes));
  return merge_environment(parts.job.environment, std::move(changes));
}

void report_not_started(Link& link, int rank) {
  ExitedMessage message;
  message.rank = rank;
  message.wait_status = W_EXITCODE(kCannotStart, 0);
  message.before_stop = true;
  message.agent_clock =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  link.send(FrameType::exited, kToLauncher, pack(message));
}

}  // namespace

Result<void> RankStarter::start(std::size_t first) {
  std::vector<RankProcesses::Start> starts;
  for (std::size_t i = first; i < job.ranks.size(); ++i) {
    HVD_TRY(auto environment, environment_of(*this, i));
    starts.push_back({&job.ranks[i], std::move(environment), pages.notice_fd(i)});
  }
  std::vector<RankPipes> pipes;
  const auto before = ranks.all().size();
  auto result = ranks.start(job, std::move(starts), first, pipes);
  StartedMessage started;
  for (std::size_t i = 0; i < pipes.size(); ++i) {
    const RankProcess& process = ranks.all()[before + i];
    started.pids.emplace_back(process.rank, process.pid);
    pages.set_pid(process.index, process.pid);
    inputs.add(process, pipes[i]);
    output.add(process.rank, std::move(pipes[i].output), std::move(pipes[i].error),
               std::move(pipes[i].order));
  }
  link.send(FrameType::started, kToLauncher, pack(started));
  return result;
}

void RankStarter::start_more(StartMoreMessage more) {
  const auto first = job.ranks.size();
  const auto before = ranks.all().size();
  Result<void> outcome;
  for (auto& rank : more.ranks) {
    if (outcome) outcome = pages.add();
    if (members != nullptr) members->add(rank.rank);
    job.ranks.push_back(std::move(rank));
  }
  if (outcome) outcome = start(first);
  if (outcome) return;
  link.send(FrameType::note, kToLauncher,
            warning_text(local_host_name() + ": " + outcome.error().message));
  std::set<int> running;
  for (auto i = before; i < ranks.all().size(); ++i) running.insert(ranks.all()[i].rank);
  for (auto i = first; i < job.ranks.size(); ++i)
    if (!running.contains(job.ranks[i].rank)) report_not_started(link, job.ranks[i].rank);
}

}  // namespace hvdrun
