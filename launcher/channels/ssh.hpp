// How an agent is started over ssh: the words of the command.
#pragma once

#include "base/event_loop.hpp"
#include "base/result.hpp"
#include "channels/agent_channel.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

struct SshOptions {
  std::string program = "ssh";
  std::optional<int> port;
  std::string identity;     // a private key's file; "": ssh's own choice
  bool accept_new = false;  // take a host's key that is not known yet; never one that has changed
  // ssh ends when its server has not answered for about so long; 0: the user's configuration says.
  std::chrono::seconds host_timeout{0};
  // ssh never ends for that reason: we look at its connection, which is its own.
  bool direct = false;
  std::string agent_path;  // hvdrun over there
};

struct SshTarget {
  std::string host;
  std::string user;         // "": ssh's own choice
  std::optional<int> port;  // of this host; before SshOptions::port
};

// What the host's shell is to run: hvdrun over there with these arguments.
std::string remote_command(const SshOptions& options, const std::vector<std::string>& arguments);

// argv that prints what ssh would do for ssh_command(), see ssh_config.hpp.
std::vector<std::string> ssh_config_command(const SshTarget& target, const SshOptions& options);

// argv. No password or question is ever asked for (BatchMode). The remote command is hvdrun's path,
// quoted for a shell, and `arguments`, which a shell must take as they are. (What an agent needs
// travels in frames, not here.)
std::vector<std::string> ssh_command(const SshTarget& target, const SshOptions& options,
                                     const std::vector<std::string>& arguments);

// In single quotes, for any POSIX shell.
std::string shell_quote(const std::string& text);

// What it means when ssh ends before the agent has greeted: a pure function, in a user's words.

// Why the agent of hvdrun has ended with this exit code before it greeted; `errors` as below.
std::string explain_agent_end(int code, std::string_view errors, const std::string& agent_path);

// What `who` (ssh, libssh) says of a login that failed, as advice where there is one.
std::string explain_login_failure(std::string_view who, std::string_view errors,
                                  std::string_view host);

// Without the host's name, so that hosts with one trouble can be told together: "login refused
// (…); `ssh HOST true` must work without a password". `wait_status` as of wait(2), `errors` what it
// has printed on stderr (where `host` becomes HOST), `agent_path` as it was asked for.
std::string explain_ssh_failure(int wait_status, std::string_view errors, std::string_view host,
                                const std::string& agent_path);

// Why ssh lost the connection of an agent that had been reached, from its exit status and what it
// printed: "ssh: Timeout, server n2 not responding." Names the signal that killed it. Empty when it
// ended for another reason.
std::string explain_lost_connection(int wait_status, std::string_view errors);

// An agent on another host, started by the system's ssh, whose stdin and stdout are the link.

// `arguments` are those of hvdrun over there. on_link is called before this returns: what is
// written waits until ssh has logged in. With a `stream` that is the agent's end of the link, and
// on_link is not called. Error: ssh cannot be started.
Result<std::unique_ptr<AgentChannel>> start_ssh_agent(
    const EventLoop& loop, const SshTarget& target, const SshOptions& options,
    const std::vector<std::string>& arguments, const AgentChannel::Events& events, Fd stream = {});

}  // namespace hvdrun
