// Agents in a SLURM allocation: one srun starts one on each host, and they connect back to us over
// TCP with TLS 1.3 and a key that travels over srun's stdin only.
//
//   launcher ── srun ══ slurmstepd ── hvdrun-link ── hvd-guard ── hvdrun-agent ── ranks
//       ╚═══════════ TLS ═════════════════╝
//
// When all agents have connected, srun is ended and its step continues without it: see let_go().
// From then on an agent's link shows its end: it closes when nothing of the agent is left on its
// host except hvdrun-link.
//
// Hosts with different numbers of GPUs get different sruns, because a step has the same number on
// all of its hosts.
//
// SrunAgents belongs to the loop's thread. It needs srun_descriptors() descriptors. After the
// start, failures are events.
#pragma once

#include "base/environment.hpp"
#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "channels/local_addresses.hpp"
#include "channels/srun_command.hpp"
#include "channels/srun_failure.hpp"
#include "channels/srun_sending.hpp"
#include "channels/srun_step.hpp"
#include "channels/tls_listener.hpp"
#include "common/fd.hpp"
#include "protocol/agent_hello.hpp"
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

struct SrunHost {
  std::string name;         // SLURM's name of it, from SLURM_JOB_NODELIST
  std::size_t agent = 0;    // the number of its agent
  std::optional<int> gpus;  // the job's GPUs there, if known; see srun_command()
};

struct SrunJob {
  SrunOptions srun;
  std::vector<SrunHost> hosts;
  std::string job_id;       // hvdrun's own
  std::string interfaces;   // --network-interface; "": by rules 2 and 3 of local_addresses.hpp
  Environment environment;  // of the caller
  std::chrono::seconds timeout{0};  // after this an agent that cannot connect gives up
};

// Returns how many descriptors the launcher needs for so many hosts.
std::size_t srun_descriptors(std::size_t hosts);

class SrunAgents {
 public:
  struct Events {
    // The agent of that host waits for its first frame. The link's descriptors are non-blocking.
    std::function<void(std::size_t host, LinkEnd)> on_link;
    // These agents will not connect; a failure without hosts is of all the rest. May be called more
    // than once.
    std::function<void(const std::vector<SrunFailure>&)> on_failure;
    // A line that an agent, or one of its libraries, has printed.
    std::function<void(std::size_t host, const std::string& text)> on_text;
    // The addresses at which agents may connect from now on, for --verbose.
    std::function<void(const std::vector<LinkAddress>&)> on_listening;
  };

  // Starts the agents. Call it while this process has one thread. Error: nothing was started,
  // because there is no srun or no such interface.
  static Result<std::unique_ptr<SrunAgents>> start(const EventLoop& loop, SrunJob job,
                                                   Events events);
  // Calls reap() with a timeout of its own. Do not destroy it within one of its events.
  ~SrunAgents();
  SrunAgents(const SrunAgents&) = delete;
  SrunAgents& operator=(const SrunAgents&) = delete;

  // Returns the hosts whose agents have not connected yet.
  std::vector<std::size_t> missing() const;
  // Returns what they wait for, as far as srun has reported it; "" if all have connected.
  std::string waiting_for() const;

  // Returns what AgentChannel::note() does, of that host.
  std::string note(std::size_t host) const;

  // Returns why the link of that host was lost, for a report; "" if it was closed normally.
  std::string why_lost(std::size_t host) const;

  // Returns "12 connections without the job's key were refused", to print once; "" if there were
  // none.
  std::string refused_note() const;

  // Returns whether that host answers, as AgentChannel::host_answers().
  bool host_answers(std::size_t host, std::chrono::milliseconds time) const;
  // The same for AgentChannel::sends_in_vain().
  bool sends_in_vain(std::size_t host) const;

  // Closes that host's link, at both ends.
  void cut(std::size_t host);

  // Waits for no more agents: those that have not connected end.
  void hang_up();

  // Ends the sruns and leaves the steps as they are. Call it when all agents have greeted.
  // Otherwise TERM, which scancel and the time limit send to every process of a batch script, would
  // make srun kill the agents (docs/decisions/0010). What agents print after this is lost.
  void let_go();

  // Cuts the links that are left and waits until the sruns that were not let go have ended, which
  // is after the end of all agents. Blocks the loop; calls no event after this. After `timeout`
  // SLURM kills what is left. Returns whether that was not needed.
  bool reap(std::chrono::milliseconds timeout);

  // Cleans up hosts whose agents have not reported that they were done. Call it after reap(). SLURM
  // may have killed them, as it does when srun or a step's task is killed, and with them the
  // processes that would have removed the job's folders. Runs a step for it and blocks the loop for
  // about `timeout` at most. Returns whether it is done; it fails if the allocation or the host is
  // gone.
  bool clean_up(const std::vector<std::size_t>& hosts, std::chrono::milliseconds timeout);

 private:
  struct Host;
  struct Step;
  struct Sending;

  SrunAgents(const EventLoop& loop, SrunJob job, Events events);
  Result<void> start_steps();
  Result<void> start_step(Step& step);
  Result<void> find_addresses();
  void on_route(const std::vector<std::string>& addresses);
  Result<void> open_listener(const std::vector<std::string>& addresses);
  void send_credentials();
  void send_credentials(const Step& step);
  std::optional<std::size_t> find_host(const AgentHello& agent) const;
  std::optional<std::uint32_t> number_of(const AgentHello& agent) const;
  void on_agent(const AgentHello& agent, Connection tls);
  bool is_waited_for(const Step& step) const;
  void on_line(Step& step, const SrunLine& line);
  void on_step_ended(Step& step);
  void explain_ends();
  std::vector<std::size_t> find_missing(const Step& step,
                                        const std::vector<std::string>& lists) const;
  void send_to(Step& step, const SrunFailure& failure);
  void on_sent(Sending& sending, const std::vector<SrunFailure>& failures);

  const EventLoop& loop_;
  SrunJob job_;
  Events events_;
  TlsKey key_;
  std::string credentials_;  // packed; empty until the listener is open
  std::vector<Host> hosts_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<std::unique_ptr<Sending>> sendings_;  // those that have ended, too
  std::unique_ptr<RouteProbe> probe_;
  std::unique_ptr<TlsListener> listener_;
  Timer settle_;  // a task's last lines may arrive after srun's report of its end
};

}  // namespace hvdrun
