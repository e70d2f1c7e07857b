// What has started an agent and carries its link: this process itself (fork), ssh, srun.
//
// Lives on the launcher's loop. Ends the agent where the link cannot, and waits until nothing of it
// is left.
#pragma once

#include "agent/guard.hpp"
#include "base/result.hpp"
#include "protocol/link.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace hvdrun {

class AgentChannel {
 public:
  struct Events {
    std::function<void(LinkEnd)> on_link;      // the agent can be spoken to; once at most
    std::function<void(std::string)> on_text;  // a line that the channel printed: ssh's warnings
    std::function<void()> on_end;              // nothing comes after it
  };

  virtual ~AgentChannel() = default;

  // Of what it is: "fork", "ssh", "srun".
  virtual std::string_view name() const = 0;

  // Whether the agent's host is there: its kernel has acknowledged something within `time`, or the
  // channel itself ends when it does not answer. An agent that is stopped, swapped out or waits for
  // a file system says nothing while its host answers.
  virtual bool host_answers(std::chrono::milliseconds time) const = 0;

  // Ends the agent now, however it is. `agent` is its process id on its host; 0: not known.
  virtual void kill(pid_t agent) = 0;

  // Lets an agent that is stopped (SIGSTOP) run again, where that can be done from here.
  virtual void wake([[maybe_unused]] pid_t agent) {}

  // Whether on_end has come, or is not to be waited for.
  virtual bool ended() const = 0;

  // What it is at, as long as the agent has not been reached: "looking up its name". Empty: not
  // known.
  virtual std::string status() const { return {}; }

  // Why there is no agent, when it has ended before the agent greeted: in a user's words, without
  // the host's name, so that hosts with one trouble can be told together.
  virtual std::string failure() const = 0;

  // Why the connection to an agent that had greeted was lost, when the channel itself has ended for
  // that reason; empty otherwise.
  virtual std::string connection_failure() const { return {}; }

  // Whether the network took that connection away. Ranks of other hosts may have noticed before.
  virtual bool network_failed() const { return false; }

  // Blocks until it has ended, for seconds at most. Whether its host has said that nothing is left.
  virtual bool wait() = 0;
};

// The agent on this host: forked, not executed, so that it starts in a fraction of a millisecond.
// Must be called while this process has one thread. The agent starts with a copy of our memory and
// none of our descriptors but 0, 1, 2. on_link is called before this returns.
Result<std::unique_ptr<AgentChannel>> start_local_agent(const AgentOptions& options,
                                                        const AgentChannel::Events& events);

}  // namespace hvdrun
