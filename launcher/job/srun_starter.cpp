#include "job/srun_starter.hpp"

#include "base/host_list.hpp"
#include "resources/chosen_devices.hpp"

#include <algorithm>
#include <utility>

namespace hvdrun {
namespace {

// srun ends after all of its agents.
constexpr std::chrono::seconds kSrunPatience{20};

// One of the agents that an srun has started. They end together; see SrunStarter::reap().
class SrunChannel final : public AgentChannel {
 public:
  SrunChannel(const std::unique_ptr<SrunAgents>& all, std::size_t host) : all_(all), host_(host) {}

  std::string_view name() const override { return "srun"; }
  bool host_answers(std::chrono::milliseconds time) const override {
    return all_->host_answers(host_, time);
  }
  bool sends_in_vain() const override { return all_->sends_in_vain(host_); }
  void kill(pid_t) override { all_->cut(host_); }
  bool ended() const override { return true; }
  std::string failure() const override { return all_->why_lost(host_); }
  std::string connection_failure() const override { return all_->why_lost(host_); }
  bool network_failed() const override { return !connection_failure().empty(); }
  std::string note() const override { return all_->note(host_); }
  bool wait() override { return true; }

 private:
  const std::unique_ptr<SrunAgents>& all_;
  std::size_t host_;
};

}  // namespace

SrunStarter::SrunStarter(StarterContext context, std::vector<AgentState*> agents, Events events)
    : context_(std::move(context)), agents_(std::move(agents)), events_(std::move(events)) {}

void SrunStarter::start() {
  SrunJob job;
  if (const auto* id = find_variable(context_.caller, "SLURM_JOB_ID")) job.srun.job_id = *id;
  job.srun.agent_path = context_.agent_path;
  job.srun.survives_hosts = context_.survives_hosts;
  if (context_.sendings) job.srun.sent = context_.sendings->agent();
  job.job_id = context_.job_id;
  job.interfaces = context_.remote.network_interface;
  job.environment = context_.caller;
  // The step's own values are to reach the agents, which cut the user's choice to them.
  std::erase_if(job.environment,
                [](const auto& variable) { return is_device_variable(variable.first); });
  job.timeout = context_.timeout;
  for (auto* agent : agents_) {
    events_.on_begin(*agent);
    agent->channel = std::make_unique<SrunChannel>(srun_, channels_.size());
    channels_.push_back(events_.channel_events(*agent));
    job.hosts.push_back({agent->host.address, agent->number, agent->host.share.given_gpus});
  }
  auto started = SrunAgents::start(
      context_.loop, std::move(job),
      {[this](std::size_t host, LinkEnd end) { channels_[host].on_link(std::move(end)); },
       [this](const std::vector<SrunFailure>& failures) { on_failures(failures); },
       [this](std::size_t host, const std::string& text) { channels_[host].on_text(text); },
       [](const std::vector<LinkAddress>&) {}});
  if (started)
    srun_ = std::move(*started);
  else
    on_failures({{{}, started.error().message}});
}

void SrunStarter::on_failures(const std::vector<SrunFailure>& failures) {
  for (const auto& failure : failures) {
    const auto names = expand_host_lists(failure.hosts);
    for (auto* agent : agents_) {
      const bool meant = names.empty() || std::ranges::count(names, agent->host.address) > 0;
      if (meant && !agent->link && !agent->life.gone()) events_.on_failure(*agent, failure.message);
    }
  }
}

void SrunStarter::on_all_greeted() {
  if (srun_) srun_->let_go();
}

void SrunStarter::stop_starting() {
  if (srun_) srun_->hang_up();
}

std::string SrunStarter::waiting_for() const {
  return srun_ ? srun_->waiting_for() : std::string();
}

std::string SrunStarter::last_note() const {
  return srun_ ? srun_->refused_note() : std::string();
}

void SrunStarter::reap() {
  if (srun_) srun_->reap(kSrunPatience);
}

std::vector<bool> SrunStarter::clean_up(const std::vector<AgentState*>& agents,
                                        std::chrono::milliseconds timeout) {
  std::vector<std::size_t> hosts;
  for (std::size_t i = 0; i < agents_.size(); ++i)
    if (std::ranges::count(agents, agents_[i]) > 0) hosts.push_back(i);
  return std::vector<bool>(agents.size(), srun_ && srun_->clean_up(hosts, timeout));
}

}  // namespace hvdrun
