#include "job/stopping.hpp"

#include "base/severity.hpp"
#include "base/system.hpp"
#include "common/text.hpp"

#include <chrono>
#include <csignal>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kKillPatience{2000};  // then an agent cannot even be killed

}  // namespace

Stopping::Stopping(AttemptParts& attempt, StopCause cause, bool has_ranks, milliseconds grace)
    : attempt_(attempt),
      cause_(std::move(cause)),
      has_ranks_(has_ranks),
      grace_(grace),
      first_signal_timer_(attempt.job.loop, [this] { shorten("Ctrl-C"); }),
      agent_timer_(attempt.job.loop, [this] { on_agents_hang(); }) {
  if (!has_ranks_ || grace_.count() == 0) cause_.first_signal.reset();
  first_signal_runs_ = cause_.first_signal.has_value();
}

int Stopping::kill_signal() const {
  return attempt_.job.spec.stop.signal.value_or(SIGTERM);
}

void Stopping::begin() {
  auto& agents = *attempt_.agents;
  attempt_.start_timer.cancel();
  attempt_.status_line.end();
  attempt_.job.input.stop();
  attempt_.terminal.end();
  agents.stop_starting(cause_.kind == EndKind::start_timeout);
  const int signal = first_signal_runs_ ? *cause_.first_signal : kill_signal();
  agents.send_all(FrameType::stop, pack(StopMessage{signal, grace_}));
  if (first_signal_runs_) first_signal_timer_.start(grace_ / 2);
  agent_timer_.start(grace_ + kAgentPatience);
  if (agents.all_gone()) attempt_.job.loop.stop();
}

void Stopping::shorten(std::string_view key) {
  auto& agents = *attempt_.agents;
  if (!first_signal_runs_) return agents.send_all(FrameType::kill);
  first_signal_runs_ = false;
  first_signal_timer_.cancel();
  agents.send_all(FrameType::stop, pack(StopMessage{kill_signal(), grace_ / 2}));
  const auto running = attempt_.table.running();
  const bool is_one = running.size() == 1;
  attempt_.note(fmt::format("{} still run{}: stopping {}{}",
                            running.empty() ? "processes of ranks" : describe_ranks(running),
                            is_one ? "s" : "", is_one ? "it" : "them", describe(key)));
}

std::string Stopping::describe(std::string_view key) const {
  if (!has_ranks_) return fmt::format("; {} once more kills at once", key);
  const auto now = signal_name(first_signal_runs_ ? *cause_.first_signal : kill_signal());
  const auto next = signal_name(first_signal_runs_ ? kill_signal() : SIGKILL);
  return fmt::format(" with {}, after {} with {}; {} once more: {} now", now,
                     seconds_text(cause_.first_signal ? grace_ / 2 : grace_), next, key, next);
}

void Stopping::on_lost(AgentState& agent, std::string why) {
  const auto& heard = agent.life.loss().host_heard;
  if (!heard || !has_ranks_) return;
  const std::chrono::duration<double> time = *heard - attempt_.begun;
  if (!lost_host_ || time.count() < lost_host_->last_heard)
    lost_host_ = LostHost{time.count(), lost_agent(agent, why)};
}

void Stopping::on_agents_hang() {
  if (std::exchange(agents_killed_, true)) return attempt_.agents->abandon();
  for (const auto& host : attempt_.agents->kill())
    attempt_.note(warning_text(fmt::format("the agent on {} does not answer and is killed", host)));
  agent_timer_.start(kKillPatience);
}

}  // namespace hvdrun
