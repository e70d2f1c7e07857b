// How an agent is started over ssh: the arguments of the command. Pure functions, for any thread;
// they cannot fail.
#pragma once

#include "channels/sent_agent.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

struct SshOptions {
  std::string program = "ssh";
  std::optional<int> port;
  std::string identity;     // a private key's file; "": ssh's own choice
  bool accept_new = false;  // accept a host's key that is not known yet; never one that has changed
  // ssh ends when its server has not answered for about this long; 0: as the user has configured.
  std::chrono::seconds host_timeout{0};
  // The connection is ssh's own. So ssh need not end when its server does not answer, because we
  // watch that connection.
  bool direct = false;
  std::vector<std::string> overrides;  // of the user's configuration; see SshFacts
  std::string agent_path;              // hvdrun on the host
  // The agent that is used instead if it is in the host's cache folder; nullopt: none.
  std::optional<SentAgent> sent;
};

struct SshTarget {
  std::string host;
  std::string user;         // "": ssh's own choice
  std::optional<int> port;  // of this host; overrides SshOptions::port
};

// Returns the command for the host's shell: hvdrun there with these arguments; see start_command().
std::string remote_command(const SshOptions& options, const std::vector<std::string>& arguments);

// Returns the argv that prints ssh's configuration for ssh_command(); see ssh_config.hpp.
std::vector<std::string> ssh_config_command(const SshTarget& target, const SshOptions& options);

// Returns the argv that starts an agent. ssh asks no password or question (BatchMode). The remote
// command is hvdrun with `arguments`, quoted for a shell. The agent gets its options in frames, not
// here.
std::vector<std::string> ssh_command(const SshTarget& target, const SshOptions& options,
                                     const std::vector<std::string>& arguments);

// Returns the text in single quotes, for any POSIX shell.
std::string shell_quote(const std::string& text);

}  // namespace hvdrun
