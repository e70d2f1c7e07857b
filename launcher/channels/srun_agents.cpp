#include "channels/srun_agents.hpp"

#include "agent/process_tree.hpp"
#include "base/system.hpp"
#include "base/version.hpp"
#include "channels/local_addresses.hpp"
#include "channels/tls_proxy.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <future>
#include <map>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {

namespace {

constexpr std::size_t kMoreGuests = 256;           // than there are agents, at one time
constexpr std::size_t kDescriptorsPerHost = 5;     // TLS twice, the proxy's end, the link's two
constexpr std::chrono::seconds kProbePatience{3};  // for names that do not resolve
constexpr std::chrono::milliseconds kSettle{200};
// Agents whose links are cut end their ranks, kill what does not end, and clean up.
constexpr std::chrono::seconds kLeavePatience{15};
// An agent that waits to connect leaves when we hang up. An srun that still waits for SLURM to
// create its step would wait on.
constexpr std::chrono::milliseconds kUnconnectedPatience{1000};
constexpr std::chrono::milliseconds kUnreachedPatience{200};
constexpr std::size_t kMaxLines = 10000;  // of what is kept to explain a failure

using Clock = std::chrono::steady_clock;

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

Fd open_pidfd(pid_t pid) {
  return Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

}  // namespace

struct SrunAgents::Host {
  Step* step = nullptr;
  std::optional<std::size_t> task;  // since it has connected
  Fd connection;                    // another descriptor of it, while it is not cut
};

struct SrunAgents::Step {
  std::vector<std::size_t> hosts;
  std::unique_ptr<SrunStep> srun;
  std::vector<SrunLine> lines;
  std::vector<SrunTaskEnd> ends;               // not explained yet
  bool explained = false;                      // some were
  std::map<std::size_t, std::size_t> of_task;  // the host of each task that has connected
};

// The proxies, in a thread of their own: signs of life pass through them, also while our loop waits
// for a file system. Its functions are called on the loop's thread.
class SrunAgents::Proxies {
 public:
  static Result<std::unique_ptr<Proxies>> start(std::size_t hosts) {
    std::unique_ptr<Proxies> proxies(new Proxies(hosts));
    HVD_TRY(proxies->thread_,
            start_thread("carries what agents say", [raw = proxies.get()] { raw->loop_.run(); }));
    return proxies;
  }

  ~Proxies() {
    if (!thread_.joinable()) return;
    mailbox_.post([this] { loop_.stop(); });
    thread_.join();
  }

  void add(std::size_t host, TlsStream stream, Fd local) {
    struct Ends {
      TlsStream stream;
      Fd local;
    };
    auto ends = std::make_shared<Ends>(Ends{std::move(stream), std::move(local)});
    mailbox_.post([this, host, ends] {
      proxies_[host] = std::make_unique<TlsProxy>(loop_, std::move(ends->stream),
                                                  std::move(ends->local), [this, host](auto lost) {
                                                    lost_[host] = lost.value_or("");
                                                    proxies_[host].reset();
                                                  });
    });
  }

  void cut(std::size_t host) {
    mailbox_.post([this, host] { proxies_[host].reset(); });
  }

  // To be asked once the link has ended.
  std::string why_lost(std::size_t host) {
    std::promise<std::string> answer;
    mailbox_.post([&] {
      answer.set_value(proxies_[host] ? proxies_[host]->lost().value_or("") : lost_[host]);
    });
    return answer.get_future().get();
  }

 private:
  explicit Proxies(std::size_t hosts) : mailbox_(loop_), proxies_(hosts), lost_(hosts) {}

  EventLoop loop_;
  Mailbox mailbox_;
  // The thread's.
  std::vector<std::unique_ptr<TlsProxy>> proxies_;
  std::vector<std::string> lost_;
  std::thread thread_;
};

std::size_t srun_descriptors(std::size_t hosts) {
  return hosts * (kDescriptorsPerHost + 1) + kMoreGuests + kMaxAddresses;
}

Result<std::unique_ptr<SrunAgents>> SrunAgents::start(const EventLoop& loop, SrunJob job,
                                                      Events events) {
  std::unique_ptr<SrunAgents> agents(new SrunAgents(loop, std::move(job), std::move(events)));
  HVD_CHECK(agents->find_addresses());
  HVD_CHECK(agents->start_steps());
  if (agents->listener_) agents->invite();
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
  reap(kLeavePatience);
}

// The steps start while the hosts' names are resolved: they wait at their stdin.
Result<void> SrunAgents::start_steps() {
  std::map<std::optional<int>, Step*> by_gpus;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    Step*& step = by_gpus[job_.hosts[i].gpus];
    if (step == nullptr) step = steps_.emplace_back(std::make_unique<Step>()).get();
    step->hosts.push_back(i);
    hosts_[i].step = step;
  }
  for (const auto& [gpus, step] : by_gpus) {
    std::vector<std::string> names;
    for (const auto host : step->hosts) names.push_back(job_.hosts[host].name);
    Step& owner = *step;
    HVD_TRY(step->srun,
            SrunStep::start(loop_, srun_command(job_.srun, names, gpus),
                            srun_environment(job_.environment),
                            {[this, &owner](const SrunLine& line) { on_line(owner, line); },
                             [this, &owner] { on_step_ended(owner); }}));
  }
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
  HVD_TRY(probe_, RouteProbe::start(loop_, names, kProbePatience,
                                    [this, all](const std::vector<std::string>& found) {
                                      on_route(found.empty() ? all_addresses(all) : found);
                                    }));
  return {};
}

void SrunAgents::on_route(const std::vector<std::string>& addresses) {
  probe_.reset();
  if (auto opened = open_listener(addresses); !opened)
    return events_.on_failure({{{}, opened.error().message}});
  invite();
}

Result<void> SrunAgents::open_listener(const std::vector<std::string>& addresses) {
  TlsListener::Limits limits;
  limits.waiting = hosts_.size() + kMoreGuests;
  HVD_TRY(listener_, TlsListener::open(loop_, key_, addresses, limits,
                                       {[this](const auto& agent) { return number_of(agent); },
                                        [this](const auto& agent, TlsStream stream) {
                                          on_agent(agent, std::move(stream));
                                        }}));
  return {};
}

void SrunAgents::invite() {
  const AgentCredentials credentials{kVersion, key_, job_.timeout, listener_->addresses()};
  events_.on_listening(credentials.addresses);
  const std::string text = pack_credentials(credentials);
  for (const auto& step : steps_) step->srun->say(text);
}

// The host of that name, unless its agent is here already.
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

void SrunAgents::on_agent(const AgentHello& agent, TlsStream stream) {
  const std::size_t index = *find_host(agent);  // was asked for
  Host& host = hosts_[index];
  auto link = make_local_link();
  if (!link) return events_.on_failure({{{job_.hosts[index].name}, link.error().message}});
  if (!proxies_) {
    auto started = Proxies::start(hosts_.size());
    if (!started) return events_.on_failure({{{}, started.error().message}});
    proxies_ = std::move(*started);
  }
  host.task = agent.task;
  host.step->of_task[agent.task] = index;
  host.connection.reset(::fcntl(stream.fd(), F_DUPFD_CLOEXEC, 0));
  proxies_->add(index, std::move(stream), std::move(link->agent.in));  // it serves both ways
  if (missing().empty()) hang_up();
  events_.on_link(index, std::move(link->launcher));
}

std::vector<std::size_t> SrunAgents::missing() const {
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < hosts_.size(); ++i)
    if (!hosts_[i].task) missing.push_back(i);
  return missing;
}

bool SrunAgents::host_answers(std::size_t host, std::chrono::milliseconds time) const {
  const Fd& connection = hosts_[host].connection;
  return connection && has_acknowledged(connection.get(), time);
}

void SrunAgents::cut(std::size_t host) {
  hosts_[host].connection.reset();
  if (proxies_) proxies_->cut(host);
}

void SrunAgents::hang_up() {
  if (listener_) listener_->close();
  for (const auto& step : steps_)
    if (step->srun) step->srun->hang_up();  // not where starting it has failed
}

void SrunAgents::let_go() {
  hang_up();
  settle_.cancel();
  for (const auto& step : steps_) {
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
    if (tasks.empty()) return;  // its link tells
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
  for (const auto& step : steps_) {
    if (step->ends.empty()) continue;
    step->explained = true;
    events_.on_failure(
        explain_task_ends(std::exchange(step->ends, {}), step->lines, job_.srun.agent_path));
  }
}

std::string SrunAgents::waiting_for() const {
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
  return proxies_ ? proxies_->why_lost(host) : "";
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
  // The loop does not run: what the links' owners have closed, the proxies could not pass on.
  proxies_.reset();
  for (auto& host : hosts_) host.connection.reset();
  settle_.cancel();
  bool all = true;
  events_ = {[](std::size_t, const LinkEnd&) {}, [](const auto&) {},
             [](std::size_t, const auto&) {}, [](const auto&) {}};
  for (const auto& step : steps_)
    if (step->srun)
      all = step->srun->reap(step->of_task.empty() ? std::min(timeout, kUnconnectedPatience)
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
  // A host whose slurmd is gone does not take the step, and srun would go on asking.
  return (*step)->reap(timeout, kUnreachedPatience) && (*step)->wait_status() == 0;
}

Result<std::unique_ptr<SrunStep>> SrunStep::start(const EventLoop& loop,
                                                  const std::vector<std::string>& command,
                                                  std::vector<std::string> environment,
                                                  Events events) {
  HVD_TRY(ChildProcess process, start_child(command, {std::move(environment), true}));
  Fd alive = open_pidfd(process.pid);
  if (!alive) {
    const int error = errno;
    ::kill(process.pid, SIGKILL);
    wait_for(process.pid);
    return fail_errno("cannot watch srun", error);
  }
  return std::unique_ptr<SrunStep>(
      new SrunStep(loop, std::move(process), std::move(alive), std::move(events)));
}

SrunStep::SrunStep(const EventLoop& loop, ChildProcess process, Fd alive, Events events)
    : process_(std::move(process)),
      alive_(std::move(alive)),
      events_(std::move(events)),
      readable_(loop, process_.errors.get(), FdEvent::readable, [this] { read_lines(); }),
      ended_(loop, alive_.get(), FdEvent::readable, [this] { on_process_end(); }) {
  readable_.enable();
  ended_.enable();
}

SrunStep::~SrunStep() {
  events_ = {};
  hang_up();
  reap(std::chrono::milliseconds(0));
}

void SrunStep::say(std::string_view text) {
  // An srun that has ended already says why it has.
  [[maybe_unused]] const auto written = ::write(process_.link.out.get(), text.data(), text.size());
}

void SrunStep::hang_up() {
  process_.link.out.reset();
}

// A helper of srun kills the step when srun is gone before it has said that all is well, so the
// helper goes first; and srun may be a site's script around the real one. All are stopped, so that
// none starts another, then killed from the last one up.
void SrunStep::let_go() {
  events_ = {};
  hang_up();
  readable_.disable();
  if (wait_status_) return;
  ended_.disable();
  ::kill(process_.pid, SIGSTOP);
  const auto family = descendants_of(process_.pid, all_processes());  // parents first
  for (const auto& process : family) send_signal(process, SIGSTOP);
  for (auto process = family.rbegin(); process != family.rend(); ++process)
    send_signal(*process, SIGKILL);
  ::kill(process_.pid, SIGKILL);
  wait_status_ = wait_for(process_.pid);
  // They have come to us, where we are a subreaper.
  for (const auto& process : family) ::waitpid(process.pid, nullptr, 0);
}

void SrunStep::read_lines() {
  std::array<char, 16384> buffer;  // NOLINT: filled by read
  const ssize_t got = ::read(process_.errors.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const auto lines =
      got > 0 ? reader_.feed({buffer.data(), static_cast<std::size_t>(got)}) : reader_.finish();
  if (got <= 0) {
    readable_.disable();
    process_.errors.reset();
  }
  if (!events_.on_line) return;
  for (const auto& line : lines) events_.on_line(line);
}

void SrunStep::on_process_end() {
  ended_.disable();
  // Another process may have its stderr too, so its end is not waited for.
  pollfd more{process_.errors.get(), POLLIN, 0};
  while (process_.errors && ::poll(&more, 1, 0) > 0) read_lines();
  wait_status_ = wait_for(process_.pid);
  if (events_.on_ended) events_.on_ended();
}

bool SrunStep::wait_for_end(std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (!wait_status_) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    std::array<pollfd, 2> waiting{pollfd{alive_.get(), POLLIN, 0},
                                  pollfd{process_.errors.get(), POLLIN, 0}};
    const int ready =
        ::poll(waiting.data(), waiting.size(),
               static_cast<int>(std::max(left, std::chrono::milliseconds(0)).count()));
    if (waiting[0].revents != 0)
      on_process_end();
    else if (waiting[1].revents != 0)
      read_lines();
    else if (ready == 0)
      return false;
  }
  return true;
}

bool SrunStep::reap(std::chrono::milliseconds timeout, std::chrono::milliseconds kill_timeout) {
  if (wait_for_end(timeout)) return true;
  ::kill(process_.pid, SIGTERM);
  if (!wait_for_end(kill_timeout)) {
    ::kill(process_.pid, SIGKILL);
    wait_for_end(kKillTimeout);
  }
  return false;
}

}  // namespace hvdrun
