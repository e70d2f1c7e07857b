// Starts an agent and carries its link: by fork, ssh, libssh or srun. A channel also ends the agent
// if the link cannot, and waits until nothing of it is left.
//
// The launcher's job owns the channels, on the launcher's loop thread. A failure is no error here:
// the channel ends, and failure() or connection_failure() explains it.
#pragma once

#include "agent/guard.hpp"
#include "base/result.hpp"
#include "channels/sent_agent.hpp"
#include "channels/ssh_config.hpp"
#include "protocol/link.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace hvdrun {

class AgentChannel {
 public:
  struct Events {
    // The launcher's end of the link. Called again if the agent is started again, because its host
    // lacked hvdrun; then the link from before is of no use.
    std::function<void(LinkEnd)> on_link;
    std::function<void(std::string)> on_text;  // a line that the channel printed: ssh's warnings
    std::function<void()> on_end;              // the last event
  };

  virtual ~AgentChannel() = default;

  // Returns the kind of channel: "fork", "ssh", "libssh", "srun".
  virtual std::string_view name() const = 0;

  // Returns whether the agent's host answers: its kernel has acknowledged something within `time`.
  // Returns true also if the channel ends by itself when the host does not answer. A host answers
  // even if its agent is silent, because that is stopped, swapped out or waits for a file system.
  virtual bool host_answers(std::chrono::milliseconds time) const = 0;

  // Returns whether what was sent there does not arrive: this kernel has sent it again and again.
  // If the host answers all the same, the network loses some packets, such as large ones.
  virtual bool sends_in_vain() const { return false; }

  // Ends the agent now, in any state. `agent` is its process id on its host; 0 if it is not known.
  virtual void kill(pid_t agent) = 0;

  // Continues an agent that is stopped (SIGSTOP), if the channel can do that.
  virtual void wake([[maybe_unused]] pid_t agent) {}

  // Takes note that the agent has sent its first frame, so the login has succeeded.
  virtual void on_reached() {}

  // Returns what the user's ssh configuration says of the host, as far as it was read.
  virtual SshFacts ssh_facts() const { return {}; }

  // Returns whether on_end was called, or need not be waited for.
  virtual bool ended() const = 0;

  // Returns what the channel does while it has not reached the agent: "looking up its name". Empty
  // if unknown.
  virtual std::string status() const { return {}; }

  // Returns why there is no agent, if the channel ended before the agent greeted. The text is for
  // users, without the host's name, so that hosts with the same failure can be reported together.
  virtual std::string failure() const = 0;

  // Returns whether the channel ended because an ssh server has closed the connection before the
  // login.
  virtual bool was_cut_before_login() const { return false; }

  // Returns what the host lacks, if the channel ended because it has no hvdrun that can be used.
  virtual std::optional<AgentLack> lack() const { return std::nullopt; }

  // Returns what the user should know of an agent that has greeted: "hvdrun there is version 0.0.9,
  // …". Empty if there is nothing.
  virtual std::string note() const { return {}; }

  // Returns why the connection to an agent that had greeted was lost, if the channel itself ended
  // for that reason; otherwise empty.
  virtual std::string connection_failure() const { return {}; }

  // Returns whether the connection was lost to the network. Ranks of other hosts may have noticed
  // that earlier.
  virtual bool network_failed() const { return false; }

  // Blocks until the channel has ended, for seconds at most. Returns whether its host has confirmed
  // that nothing is left there.
  virtual bool wait() = 0;
};

// Starts the agent on this host. It is forked, not executed, so that it starts in a fraction of a
// millisecond. Call it while this process has one thread. The agent starts with a copy of our
// memory and, of our descriptors, with 0, 1 and 2 only. Calls on_link before it returns. Error: no
// process or link can be made.
Result<std::unique_ptr<AgentChannel>> start_local_agent(const AgentOptions& options,
                                                        const AgentChannel::Events& events);

}  // namespace hvdrun
