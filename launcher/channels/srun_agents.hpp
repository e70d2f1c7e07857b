// Agents in a SLURM allocation: one srun starts one on each host, and they connect back to us over
// TCP with TLS 1.3 and a key that travels over srun's stdin only.
//
//   launcher ── srun ══ slurmstepd ── hvdrun-link ── hvd-guard ── hvdrun-agent ── ranks
//       ╚═══════════ TLS ═════════════════╝
//
// Once all agents have come srun is ended and its step goes on without it: see let_go(). From then
// on an agent's link tells its end: it closes when nothing of the agent is left on its host, but
// for hvdrun-link itself.
//
// Hosts with other numbers of GPUs than the rest get an srun of their own: a step has the same
// number on all of its hosts.
//
// On the loop's thread; SIGPIPE must be ignored or blocked. Needs srun_descriptors() descriptors.
#pragma once

#include "base/environment.hpp"
#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "channels/agent_hello.hpp"
#include "channels/child_process.hpp"
#include "channels/local_addresses.hpp"
#include "channels/srun.hpp"
#include "channels/tls_listener.hpp"
#include "common/fd.hpp"
#include "protocol/link.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// One running srun.
//
// Its stdin is the agents' lifeline until they have connected: when it closes, because we have hung
// up or are gone, agents that have not connected leave. On the loop's thread.

// srun itself waits for the hosts as long as slurm.conf's KillWait says, 30 s by default.
inline constexpr std::chrono::seconds kKillTimeout{40};

class SrunStep {
 public:
  struct Events {
    std::function<void(const SrunLine&)> on_line;
    std::function<void()> on_ended;  // after its last line; how: wait_status()
  };

  // Error: there is no such program.
  static Result<std::unique_ptr<SrunStep>> start(const EventLoop& loop,
                                                 const std::vector<std::string>& command,
                                                 std::vector<std::string> environment,
                                                 Events events);
  // Ends srun, and with it the step, if it still runs.
  ~SrunStep();
  SrunStep(const SrunStep&) = delete;
  SrunStep& operator=(const SrunStep&) = delete;

  void say(std::string_view text);  // to the stdin of all tasks; at most what a pipe holds
  void hang_up();

  // Ends srun, and whatever it is part of, but not the step: the tasks, all of which must be known
  // to run, go on without it. (TERM to srun is KILL for its tasks, and scancel and the time limit
  // send it to every process of a batch script.) Nothing is reported any more.
  void let_go();

  std::optional<int> wait_status() const { return wait_status_; }

  // Waits until srun has ended, blocking the loop. After `timeout` srun is told to end the step,
  // which kills what is left of it on all hosts, and after `kill_timeout` is itself killed.
  // Returns whether it ended by itself.
  bool reap(std::chrono::milliseconds timeout,
            std::chrono::milliseconds kill_timeout = kKillTimeout);

 private:
  SrunStep(const EventLoop& loop, ChildProcess process, Fd alive, Events events);
  void read_lines();
  void on_process_end();
  bool wait_for_end(std::chrono::milliseconds timeout);

  ChildProcess process_;
  Fd alive_;  // a pidfd: readable once srun has ended
  Events events_;
  SrunReader reader_;
  std::optional<int> wait_status_;
  FdEvent readable_;
  FdEvent ended_;
};

struct SrunHost {
  std::string name;         // as SLURM has it: SLURM_JOB_NODELIST
  std::size_t agent = 0;    // the number of its agent
  std::optional<int> gpus;  // of the job there, when known; see srun_command()
};

struct SrunJob {
  SrunOptions srun;
  std::vector<SrunHost> hosts;
  std::string job_id;               // hvdrun's own
  std::string interfaces;           // --network-interface; "": local_addresses.hpp says which
  Environment environment;          // of the caller
  std::chrono::seconds timeout{0};  // after which an agent that cannot connect gives up
};

// How many descriptors this takes in the launcher.
std::size_t srun_descriptors(std::size_t hosts);

class SrunAgents {
 public:
  struct Events {
    // The agent of that host waits for its first frame. The link's descriptors are non-blocking.
    std::function<void(std::size_t host, LinkEnd)> on_link;
    // These, or with no host named the rest, will not come. May be called more than once.
    std::function<void(const std::vector<SrunFailure>&)> on_failure;
    // A line that an agent, or what it is linked to, has printed.
    std::function<void(std::size_t host, const std::string& text)> on_text;
    // Where agents are waited for from now on: for --verbose.
    std::function<void(const std::vector<LinkAddress>&)> on_listening;
  };

  // Error: nothing was started (no srun; an interface that is not there). Must be called while this
  // process has one thread.
  static Result<std::unique_ptr<SrunAgents>> start(const EventLoop& loop, SrunJob job,
                                                   Events events);
  // As reap(), with a timeout of its own; not to be called from an event of it.
  ~SrunAgents();
  SrunAgents(const SrunAgents&) = delete;
  SrunAgents& operator=(const SrunAgents&) = delete;

  // Hosts whose agents have not connected yet.
  std::vector<std::size_t> missing() const;
  // What they wait for, as far as srun has said.
  std::string waiting_for() const;

  // Why the link of that host is gone, for a report; "" when it has closed in good order.
  std::string why_lost(std::size_t host) const;

  // "12 connections without the job's key were refused", to be said once; "" when there were none.
  std::string refused_note() const;

  // Whether that host is there, see AgentChannel.
  bool host_answers(std::size_t host, std::chrono::milliseconds time) const;

  // Closes that host's link, at both ends.
  void cut(std::size_t host);

  // Nobody else is waited for: agents that have not connected leave.
  void hang_up();

  // All agents have come and greeted. Ends the sruns and leaves the steps as they are: TERM, which
  // scancel and the time limit send to every process of a batch script, would make srun kill the
  // agents (docs/decisions/0010). What agents print after that is lost.
  void let_go();

  // Cuts what links there are still, and waits for the ends of the sruns that were not let go,
  // which come after those of all agents, blocking the loop; nothing is reported any more. After
  // `timeout` SLURM kills what is left. Returns whether that was not needed.
  bool reap(std::chrono::milliseconds timeout);

  // After reap(), for hosts whose agents have not said that they were done: SLURM may have killed
  // them (it does when srun is killed, or a step's task), and with them whoever would have removed
  // the job's folders. Runs a step that does, blocking the loop for at most about `timeout`.
  // Returns whether it is done; it cannot be when the allocation is gone, or the host.
  bool clean_up(const std::vector<std::size_t>& hosts, std::chrono::milliseconds timeout);

 private:
  struct Host;
  struct Step;
  class Proxies;

  SrunAgents(const EventLoop& loop, SrunJob job, Events events);
  Result<void> start_steps();
  Result<void> find_addresses();
  void on_route(const std::vector<std::string>& addresses);
  Result<void> open_listener(const std::vector<std::string>& addresses);
  void invite();
  std::optional<std::size_t> find_host(const AgentHello& agent) const;
  std::optional<std::uint32_t> number_of(const AgentHello& agent) const;
  void on_agent(const AgentHello& agent, TlsStream stream);
  bool is_waited_for(const Step& step) const;
  void on_line(Step& step, const SrunLine& line);
  void on_step_ended(Step& step);
  void explain_ends();

  const EventLoop& loop_;
  SrunJob job_;
  Events events_;
  LinkKey key_;
  std::vector<Host> hosts_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::unique_ptr<RouteProbe> probe_;
  std::unique_ptr<TlsListener> listener_;
  std::unique_ptr<Proxies> proxies_;  // since the first agent has connected
  Timer settle_;                      // what a task has said may come after the news of its end
};

}  // namespace hvdrun
