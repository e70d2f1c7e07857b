#include "channels/srun_agents.hpp"

#include "base/host_list.hpp"
#include "base/version.hpp"
#include "channels/local_addresses.hpp"
#include "common/net/tcp.hpp"
#include "slurm/slurm_command.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::size_t kMoreConnections = 256;     // at one time, beside those of the agents
constexpr std::size_t kDescriptorsPerHost = 2;    // its connection, and another that is pending
constexpr std::chrono::seconds kProbeTimeout{3};  // for names that do not resolve
constexpr std::chrono::milliseconds kSettle{200};
// Agents whose links are cut end their ranks, kill what does not end, and clean up.
constexpr std::chrono::seconds kReapTimeout{15};
// An agent that waits to connect ends when we hang up. An srun that still waits for SLURM to create
// its step would continue to wait.
constexpr std::chrono::milliseconds kUnconnectedTimeout{1000};
constexpr std::chrono::milliseconds kUnreachedTimeout{200};
constexpr std::size_t kMaxLines = 10000;  // that are kept to explain a failure

}  // namespace

struct SrunAgents::Host {
  Step* step = nullptr;
  std::optional<std::size_t> task;  // nullopt until it has connected
  std::optional<AgentLack> lack;    // why hvdrun was sent there
  std::shared_ptr<TlsLink> tls;     // null until it has connected, and once it was cut
};

struct SrunAgents::Step {
  std::vector<std::size_t> hosts;
  std::optional<int> gpus;  // see srun_command()
  std::unique_ptr<SrunStep> srun;
  std::vector<SrunLine> lines;
  std::vector<SrunTaskEnd> ends;               // not explained yet
  bool explained = false;                      // some ends were explained
  std::map<std::size_t, std::size_t> of_task;  // the host of each task that has connected
};

// Hosts that lack hvdrun, and are not in a step until it was sent to them.
struct SrunAgents::Sending {
  std::vector<std::size_t> hosts;
  std::optional<int> gpus;
  std::unique_ptr<SrunSending> steps;  // null when it has ended
};

std::size_t srun_descriptors(std::size_t hosts) {
  return hosts * kDescriptorsPerHost + kMoreConnections + kMaxAddresses;
}

Result<std::unique_ptr<SrunAgents>> SrunAgents::start(const EventLoop& loop, SrunJob job,
                                                      Events events) {
  std::unique_ptr<SrunAgents> agents(new SrunAgents(loop, std::move(job), std::move(events)));
  HVD_CHECK(agents->find_addresses());
  HVD_CHECK(agents->start_steps());
  if (agents->listener_) agents->send_credentials();
  return agents;
}

SrunAgents::SrunAgents(const EventLoop& loop, SrunJob job, Events events)
    : loop_(loop),
      job_(std::move(job)),
      events_(std::move(events)),
      key_(make_link_key(job_.job_id)),
      hosts_(job_.hosts.size()),
      settle_(loop, [this] { explain_ends(); }) {}

SrunAgents::~SrunAgents() {
  reap(kReapTimeout);
}

// Starts the steps while the hosts' names are resolved; agents wait for their stdin.
Result<void> SrunAgents::start_steps() {
  std::map<std::optional<int>, Step*> by_gpus;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    Step*& step = by_gpus[job_.hosts[i].gpus];
    if (step == nullptr) step = steps_.emplace_back(std::make_unique<Step>()).get();
    step->hosts.push_back(i);
    step->gpus = job_.hosts[i].gpus;
  }
  for (const auto& [gpus, step] : by_gpus) HVD_CHECK(start_step(*step));
  return {};
}

Result<void> SrunAgents::start_step(Step& step) {
  std::vector<std::string> names;
  for (const auto host : step.hosts) {
    hosts_[host].step = &step;
    names.push_back(job_.hosts[host].name);
  }
  HVD_TRY(step.srun, SrunStep::start(loop_, srun_command(job_.srun, names, step.gpus),
                                     srun_environment(job_.environment),
                                     {[this, &step](const SrunLine& line) { on_line(step, line); },
                                      [this, &step] { on_step_ended(step); }}));
  return {};
}

Result<void> SrunAgents::find_addresses() {
  HVD_TRY(const auto all, named_addresses());
  if (!job_.interfaces.empty()) {
    HVD_TRY(const auto addresses, addresses_of_interfaces(all, job_.interfaces));
    return open_listener(addresses);
  }
  std::vector<std::string> names;
  for (const auto& host : job_.hosts) names.push_back(host.name);
  HVD_TRY(probe_, RouteProbe::start(loop_, names, kProbeTimeout,
                                    [this, all](const std::vector<std::string>& found) {
                                      on_route(found.empty() ? all_addresses(all) : found);
                                    }));
  return {};
}

void SrunAgents::on_route(const std::vector<std::string>& addresses) {
  probe_.reset();
  if (auto opened = open_listener(addresses); !opened)
    return events_.on_failure({{{}, opened.error().message}});
  send_credentials();
}

Result<void> SrunAgents::open_listener(const std::vector<std::string>& addresses) {
  TlsListener::Limits limits;
  limits.pending = hosts_.size() + kMoreConnections;
  HVD_TRY(listener_, TlsListener::open(loop_, key_, addresses, limits,
                                       {[this](const auto& agent) { return number_of(agent); },
                                        [this](const auto& agent, Connection tls) {
                                          on_agent(agent, std::move(tls));
                                        }}));
  return {};
}

void SrunAgents::send_credentials() {
  const AgentCredentials credentials{kVersion, key_, job_.timeout, listener_->addresses()};
  events_.on_listening(credentials.addresses);
  credentials_ = pack_credentials(credentials);
  for (const auto& step : steps_) send_credentials(*step);
}

void SrunAgents::send_credentials(const Step& step) {
  if (step.srun) step.srun->write_to_tasks(credentials_);
}

// Returns the host of that name, or nullopt if its agent has already connected.
std::optional<std::size_t> SrunAgents::find_host(const AgentHello& agent) const {
  const auto named = std::find_if(job_.hosts.begin(), job_.hosts.end(),
                                  [&](const auto& host) { return host.name == agent.host; });
  if (named == job_.hosts.end()) return std::nullopt;
  const auto index = static_cast<std::size_t>(named - job_.hosts.begin());
  if (hosts_[index].task) return std::nullopt;
  return index;
}

std::optional<std::uint32_t> SrunAgents::number_of(const AgentHello& agent) const {
  const auto index = find_host(agent);
  if (!index) return std::nullopt;
  return static_cast<std::uint32_t>(job_.hosts[*index].agent);
}

void SrunAgents::on_agent(const AgentHello& agent, Connection tls) {
  const std::size_t index = *find_host(agent);  // number_of() has found it
  Host& host = hosts_[index];
  host.task = agent.task;
  host.step->of_task[agent.task] = index;
  host.tls = std::make_shared<TlsLink>(TlsLink{std::move(tls), {}});
  LinkEnd end;
  end.tls = host.tls;
  if (missing().empty()) hang_up();
  events_.on_link(index, std::move(end));
}

std::vector<std::size_t> SrunAgents::missing() const {
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < hosts_.size(); ++i)
    if (!hosts_[i].task) missing.push_back(i);
  return missing;
}

bool SrunAgents::host_answers(std::size_t host, std::chrono::milliseconds time) const {
  const auto& tls = hosts_[host].tls;
  return tls && has_acknowledged(tls->connection.get(), time);
}

bool SrunAgents::sends_in_vain(std::size_t host) const {
  const auto& tls = hosts_[host].tls;
  return tls && common::sends_in_vain(tls->connection.get());
}

void SrunAgents::cut(std::size_t host) {
  // The link has the connection, too, and notices its end.
  if (const auto tls = std::exchange(hosts_[host].tls, nullptr))
    ::shutdown(tls->connection.get(), SHUT_RDWR);
}

void SrunAgents::hang_up() {
  if (listener_) listener_->close();
  for (const auto& step : steps_)
    if (step->srun) step->srun->hang_up();  // null if its start has failed
}

void SrunAgents::let_go() {
  hang_up();
  settle_.cancel();
  for (const auto& step : steps_) {
    if (!step->srun) continue;  // no host has got hvdrun
    step->srun->let_go();
    step->srun.reset();
  }
}

bool SrunAgents::is_waited_for(const Step& step) const {
  return step.of_task.size() < step.hosts.size();
}

void SrunAgents::on_line(Step& step, const SrunLine& line) {
  if (line.task) {
    if (const auto at = step.of_task.find(*line.task); at != step.of_task.end())
      return events_.on_text(at->second, line.text);
  } else if (auto end = parse_task_end(line.text)) {
    auto& tasks = end->tasks;
    std::erase_if(tasks, [&](auto task) { return step.of_task.contains(task); });
    if (tasks.empty()) return;  // the links of connected agents show their ends
    step.ends.push_back(std::move(*end));
    if (!settle_.pending()) settle_.start(kSettle);
  }
  if (is_waited_for(step) && step.lines.size() < kMaxLines) step.lines.push_back(line);
}

void SrunAgents::on_step_ended(Step& step) {
  if (!is_waited_for(step)) return;
  if (!step.ends.empty()) return explain_ends();
  if (!step.explained)
    events_.on_failure({explain_srun_failure(*step.srun->wait_status(), step.lines)});
}

void SrunAgents::explain_ends() {
  settle_.cancel();
  // What follows may start more steps.
  std::vector<std::pair<Step*, std::vector<SrunFailure>>> explained;
  for (const auto& step : steps_) {
    if (step->ends.empty()) continue;
    step->explained = true;
    explained.emplace_back(step.get(), explain_task_ends(std::exchange(step->ends, {}), step->lines,
                                                         job_.srun.agent_path));
  }
  for (const auto& [step, failures] : explained) {
    std::vector<SrunFailure> final;
    for (const auto& failure : failures)
      (failure.lack && job_.srun.sent) ? send_to(*step, failure) : final.push_back(failure);
    if (!final.empty()) events_.on_failure(final);
  }
}

// Returns the hosts of the step that are in SLURM's lists of hosts and have not connected.
std::vector<std::size_t> SrunAgents::find_missing(const Step& step,
                                                  const std::vector<std::string>& lists) const {
  const auto names = expand_host_lists(lists);
  std::vector<std::size_t> found;
  for (const auto host : step.hosts)
    if (!hosts_[host].task &&
        std::find(names.begin(), names.end(), job_.hosts[host].name) != names.end())
      found.push_back(host);
  return found;
}

// Sends hvdrun to hosts that lack it. A host gets it once.
void SrunAgents::send_to(Step& step, const SrunFailure& failure) {
  auto sending = std::make_unique<Sending>();
  std::vector<std::string> names;
  for (const auto host : find_missing(step, failure.hosts)) {
    if (hosts_[host].lack) {
      events_.on_failure({{{job_.hosts[host].name}, failure.message}});
      continue;
    }
    hosts_[host].lack = failure.lack;
    sending->hosts.push_back(host);
    names.push_back(job_.hosts[host].name);
    std::erase(step.hosts, host);
  }
  if (names.empty()) return;
  sending->gpus = step.gpus;
  Sending& owner = *sendings_.emplace_back(std::move(sending));
  auto steps =
      SrunSending::start(loop_, job_.srun, names, srun_environment(job_.environment),
                         [this, &owner](const auto& failures) { on_sent(owner, failures); });
  if (steps)
    owner.steps = std::move(*steps);
  else
    events_.on_failure({{names, failure.lack->what + "; " + steps.error().message}});
}

// Starts agents on the hosts that have got hvdrun.
void SrunAgents::on_sent(Sending& sending, const std::vector<SrunFailure>& failures) {
  Step& step = *steps_.emplace_back(std::make_unique<Step>());
  step.hosts = sending.hosts;
  step.gpus = sending.gpus;
  std::vector<SrunFailure> final;
  for (const auto& failure : failures) {
    const auto hosts = failure.hosts.empty() ? step.hosts : find_missing(step, failure.hosts);
    for (const auto host : hosts) {
      std::erase(step.hosts, host);
      final.push_back({{job_.hosts[host].name}, hosts_[host].lack->what + "; " + failure.message});
    }
  }
  sending.steps.reset();
  if (!step.hosts.empty()) {
    if (auto started = start_step(step); !started)
      final.push_back({{}, started.error().message});
    else if (listener_)
      send_credentials(step);
  }
  if (!final.empty()) events_.on_failure(final);
}

std::string SrunAgents::note(std::size_t host) const {
  const auto& lack = hosts_[host].lack;
  return lack && lack->is_other_version ? lack->what + kWasSent : std::string();
}

std::string SrunAgents::waiting_for() const {
  for (const auto& sending : sendings_)
    if (sending->steps) return "hvdrun is being sent to hosts that lack it";
  for (const auto& step : steps_)
    if (is_waited_for(*step)) return explain_srun_waiting(step->lines);
  return {};
}

std::string SrunAgents::why_lost(std::size_t host) const {
  const auto& srun = hosts_[host].step->srun;
  const auto status = srun ? srun->wait_status() : std::nullopt;
  if (status && WIFSIGNALED(*status))
    return fmt::format("srun was killed by {}, and SLURM has ended its step",
                       signal_name(WTERMSIG(*status)));
  return hosts_[host].tls ? hosts_[host].tls->lost : "";
}

std::string SrunAgents::refused_note() const {
  const auto count = listener_ ? listener_->refused() : 0;
  if (count == 0) return {};
  return fmt::format("{} connection{} without the job's key {} refused", count,
                     count == 1 ? "" : "s", count == 1 ? "was" : "were");
}

bool SrunAgents::reap(std::chrono::milliseconds timeout) {
  probe_.reset();
  hang_up();
  for (std::size_t host = 0; host < hosts_.size(); ++host) cut(host);
  settle_.cancel();
  sendings_.clear();
  bool all = true;
  events_ = {[](std::size_t, const LinkEnd&) {}, [](const auto&) {},
             [](std::size_t, const auto&) {}, [](const auto&) {}};
  for (const auto& step : steps_)
    if (step->srun)
      all = step->srun->reap(step->of_task.empty() ? std::min(timeout, kUnconnectedTimeout)
                                                   : timeout) &&
            all;
  return all;
}

bool SrunAgents::clean_up(const std::vector<std::size_t>& hosts,
                          std::chrono::milliseconds timeout) {
  std::vector<std::string> names;
  std::vector<std::size_t> agents;
  for (const auto host : hosts) {
    names.push_back(job_.hosts[host].name);
    agents.push_back(job_.hosts[host].agent);
  }
  auto step = SrunStep::start(loop_, srun_cleanup_command(job_.srun, names, job_.job_id, agents),
                              srun_environment(job_.environment), {});
  if (!step) return false;
  (*step)->hang_up();
  // A host without slurmd does not accept the step, and srun would retry without end.
  return (*step)->reap(timeout, kUnreachedTimeout) && (*step)->wait_status() == 0;
}

}  // namespace hvdrun
