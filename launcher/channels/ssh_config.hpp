// The user's ssh configuration for a host, as `ssh -G` prints it, and whether libssh can follow it.
// Plain functions, for any thread; check_known_hosts() reads files. Error: a phrase that names what
// needs the system's ssh: "ProxyJump".
//
// Source: ssh(1) -G, ssh_config(5), sshd(8) "SSH_KNOWN_HOSTS FILE FORMAT".
#pragma once

#include "base/result.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

struct SshConfig {
  std::string host;  // to connect to, and its name in known_hosts
  std::string user;
  int port = 22;
  std::vector<std::string> identities;  // files of private keys; "~" is the home folder
  std::optional<std::chrono::seconds> connect_timeout;
  std::string known_hosts;  // the user's file, an absolute path
  std::string global_known_hosts;
  // Further files of known hosts. libssh reads one of each kind, so these must be missing or empty.
  std::vector<std::string> unread_known_hosts;
  bool accepts_new_keys = false;
  // Comma-separated lists, best first.
  std::string ciphers;
  std::string macs;
  std::string key_exchanges;
  std::string host_keys;
  std::string public_keys;
};

// Reads what `ssh -G` printed. `home`: the user's home folder in the password database. Error: the
// configuration needs the system's ssh, or the text is no configuration.
Result<SshConfig> parse_ssh_config(std::string_view text, const std::string& home);

// What `ssh -G` says of a login by the system's ssh.
struct SshFacts {
  // ssh's own process connects to the host, so that the connection is its socket: no other program
  // connects (ProxyJump, ProxyCommand), and no other ssh (ControlPath).
  bool direct = false;
  // Names the ssh server that the login reaches first: a jump host, otherwise the host itself. ""
  // if the text is no configuration.
  std::string server;
  // Arguments of ssh that undo what would keep it from running a command and carrying its streams.
  std::vector<std::string> overrides;
};
SshFacts ssh_facts(std::string_view text);

// Checks that libssh would read the same host keys from these files as ssh does. libssh does not
// know @revoked and @cert-authority, ignores negated patterns, and stops at a line that it cannot
// parse. Error: a file has such a line (the phrase names the file), or is a further file.
Result<void> check_known_hosts(const SshConfig& config);

// Describes the first line in one file's text that libssh would read differently; "" if there is
// none.
std::string beyond_libssh(std::string_view known_hosts);

}  // namespace hvdrun
