// The agents of one try of a job, one a host, each with its link.
//
// Owned by an Attempt, on the loop's thread. What agents say goes to the owner, frame by frame.
#pragma once

#include "agent/guard.hpp"
#include "control/link.hpp"
#include "model/placement.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

// Output bytes that an agent may have under way before the launcher has shown them.
inline constexpr std::uint32_t kOutputWindow = 2u << 20;

struct AgentState {
  std::size_t host_index = 0;
  std::string host;
  pid_t guard = 0;  // our child
  pid_t pid = 0;    // of the agent itself, once it has greeted
  std::unique_ptr<Link> link;
  std::uint32_t credit_owed = kOutputWindow;  // for output that has been taken from it
  // What it has told.
  bool greeted = false;
  bool started = false;
  bool paused = false;
  bool done = false;
  bool gone = false;  // its link is closed

  void send(FrameType type, std::string_view payload = {}) {
    link->send(type, static_cast<std::uint32_t>(host_index), payload);
  }
};

class Agents {
 public:
  struct Events {
    std::function<void(AgentState&, const Frame&)> on_frame;
    // After `gone` was set. Nothing of this agent comes after it.
    std::function<void(AgentState&, const std::optional<Error>&)> on_closed;
  };

  Agents(const EventLoop& loop, Events events) : loop_(loop), events_(std::move(events)) {}

  // Starts the agent of each host: in this version of one, this machine. Error: nothing was
  // started.
  Result<void> start(const Placement& placement, AgentOptions options);

  std::size_t size() const { return agents_.size(); }
  AgentState& on_host(std::size_t host_index) { return *agents_[host_index]; }

  // Whether each has told so, those left out that are gone.
  bool all(bool AgentState::*told) const;
  bool all_gone() const { return all(&AgentState::gone); }

  void send_all(FrameType type, std::string_view payload = {});

  // Output that was shown or filed: the agent may send as much again, which it is told at once when
  // enough has come together, and otherwise by return_credit().
  void took_output(AgentState& agent, std::size_t bytes, bool may_return);
  void return_credit();

  // Kills those that are not gone; their guards end what they leave. Returns their hosts.
  std::vector<std::string> kill();

  // Hosts whose agent's link closed before it had said that it was done.
  std::vector<std::string> lost_hosts() const;

  // Waits for the guards, which end last of all; then nothing of the try is left, but for what it
  // returns: "pid 123 (python)". `spare`: children of this process that are not the job's.
  std::vector<std::string> reap(const std::string& job_id, const std::vector<pid_t>& spare);

 private:
  const EventLoop& loop_;
  Events events_;
  std::vector<std::unique_ptr<AgentState>> agents_;  // by host index
};

}  // namespace hvdrun
