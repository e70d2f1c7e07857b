// How an agent is started over ssh: the words of the command.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

struct SshOptions {
  std::string program = "ssh";
  std::optional<int> port;
  std::string identity;     // a private key's file; "": ssh's own choice
  bool accept_new = false;  // take a host's key that is not known yet; never one that has changed
  // ssh ends when its server has not answered for about so long; 0: the user's configuration says.
  std::chrono::seconds host_timeout{0};
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

}  // namespace hvdrun
