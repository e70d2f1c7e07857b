#include "job/agents.hpp"

#include "agent/job_folders.hpp"
#include "agent/process_tree.hpp"
#include "control/messages.hpp"
#include "remote/local_agent.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// Credit goes back in pieces of at least this, so that there are few frames.
constexpr std::uint32_t kCreditStep = kOutputWindow / 8;
constexpr std::chrono::seconds kLastResortPatience{5};

}  // namespace

Result<void> Agents::start(const Placement& placement, AgentOptions options) {
  const auto& host = placement.hosts.front();
  options.local_ranks = host.ranks.size();
  HVD_TRY(LocalAgent local, start_local_agent(options));
  auto& agent = *agents_.emplace_back(std::make_unique<AgentState>());
  agent.host = host.host;
  agent.guard = local.guard;
  agent.link = std::make_unique<Link>(
      loop_, std::move(local.link),
      Link::Events{[this, &agent](const Frame& frame) { events_.on_frame(agent, frame); },
                   [this, &agent](const std::optional<Error>& error) {
                     agent.gone = true;
                     events_.on_closed(agent, error);
                   }});
  return {};
}

bool Agents::all(bool AgentState::*told) const {
  return std::all_of(agents_.begin(), agents_.end(),
                     [told](const auto& agent) { return agent->gone || agent.get()->*told; });
}

void Agents::send_all(FrameType type, std::string_view payload) {
  for (const auto& agent : agents_) agent->send(type, payload);
}

void Agents::took_output(AgentState& agent, std::size_t bytes, bool may_return) {
  agent.credit_owed += static_cast<std::uint32_t>(bytes);
  if (agent.credit_owed >= kCreditStep && may_return) return_credit();
}

void Agents::return_credit() {
  for (const auto& agent : agents_) {
    if (agent->credit_owed == 0) continue;
    agent->send(FrameType::output_credit, pack_number(std::exchange(agent->credit_owed, 0)));
  }
}

std::vector<std::string> Agents::kill() {
  std::vector<std::string> hosts;
  for (const auto& agent : agents_) {
    if (agent->gone) continue;
    hosts.push_back(agent->host);
    ::kill(agent->pid != 0 ? agent->pid : agent->guard, SIGKILL);
  }
  return hosts;
}

std::vector<std::string> Agents::lost_hosts() const {
  std::vector<std::string> hosts;
  for (const auto& agent : agents_)
    if (agent->gone && !agent->done) hosts.push_back(agent->host);
  return hosts;
}

std::vector<std::string> Agents::reap(const std::string& job_id, const std::vector<pid_t>& spare) {
  bool swept = true;
  for (const auto& agent : agents_) {
    int status = 0;
    while (::waitpid(agent->guard, &status, 0) < 0 && errno == EINTR) {
    }
    if (!agent->done || !WIFEXITED(status)) swept = false;
  }
  if (swept) return {};
  // A guard may have been killed together with its agent, or have met what does not die: what is
  // left on this host has come to us, being a subreaper.
  std::vector<std::string> leftovers;
  for (const auto& left : kill_job_processes(::getpid(), job_id, kLastResortPatience, spare))
    leftovers.push_back(to_string(left));
  JobFolders::of(job_id).sweep();
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  return leftovers;
}

}  // namespace hvdrun
