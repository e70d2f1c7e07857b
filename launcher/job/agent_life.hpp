// The life of an agent, as the launcher sees it: how far it has come, and how it was lost.
//
// A value for the loop thread. Agents and the classes derived from it are its only writers; the
// attempt reports to them what an agent has said (Agents::greeted() and the next ones).
#pragma once

#include "protocol/heartbeat.hpp"

#include <optional>
#include <string>

namespace hvdrun {

// How far an agent has come. An agent that gets another link is started anew.
enum class AgentPhase {
  waiting,   // for the logins of others
  starting,  // logging in, or its first frame has not come
  reached,   // something has come from it
  greeted,   // its hello has come, and it is of this version
  running,   // its ranks have started
  done,      // it has reported its end
};

// Why and how an agent was lost.
struct Loss {
  enum class Cause {
    agent,        // it ended, or its connection did
    host_silent,  // it was given up because its host no longer answers
    job_stopped,  // it was still being started when the job was stopped: its host is not lost
  };
  Cause cause = Cause::agent;
  std::string why;  // if that is known; without the host's name
  // When the host was last heard, if its connection was lost or it was given up.
  std::optional<Silence::Clock::time_point> host_heard;
  bool cleared_away = false;  // its host reports that nothing of the job is left
};

class AgentLife {
 public:
  AgentPhase phase() const { return phase_; }
  bool has(AgentPhase phase) const { return phase_ >= phase; }

  bool link_closed() const { return end_ != End::none; }  // it sends no more
  bool gone() const { return end_ == End::gone; }         // its channel has ended too
  bool done() const { return phase_ == AgentPhase::done; }

  // What is known of its loss. It may be known before the agent is gone.
  const Loss& loss() const { return loss_; }

 private:
  friend class Agents;
  enum class End { none, link_closed, gone };

  AgentPhase phase_ = AgentPhase::waiting;
  End end_ = End::none;
  Loss loss_;
};

}  // namespace hvdrun
