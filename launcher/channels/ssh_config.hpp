// What the user's ssh configuration says of a host, as `ssh -G` prints it, and whether libssh can
// do it.
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
  std::string host;  // to connect to, and as known_hosts calls it
  std::string user;
  int port = 22;
  std::vector<std::string> identities;  // files of private keys; "~" is the home folder
  std::optional<std::chrono::seconds> connect_timeout;
  std::string known_hosts;  // the user's file, with its whole path
  std::string global_known_hosts;
  // Further files of known hosts. libssh reads one of each kind, so these must not be there.
  std::vector<std::string> unread_known_hosts;
  bool accepts_new_keys = false;
  // Comma-separated lists, best first.
  std::string ciphers;
  std::string macs;
  std::string key_exchanges;
  std::string host_keys;
  std::string public_keys;
};

// Error: what in it needs the system's ssh, such as "ProxyJump"; or that it is no configuration.
// `home`: of the user, as the password database says.
Result<SshConfig> parse_ssh_config(std::string_view text, const std::string& home);

// Whether a process of ssh itself connects to the host, so that its socket is that of the
// connection: no other program does (ProxyJump, ProxyCommand), and no other ssh (ControlPath).
bool connects_directly(std::string_view text);

// Whether libssh would take the same host keys from these files as ssh does. It knows no @revoked
// and no @cert-authority, takes a negated pattern for no pattern, and stops reading at a line that
// it cannot parse. Error: what in them needs the system's ssh, and where it stands.
Result<void> check_known_hosts(const SshConfig& config);

// Of one file's text: the first line of that kind, in words; "" when there is none.
std::string beyond_libssh(std::string_view known_hosts);

}  // namespace hvdrun
