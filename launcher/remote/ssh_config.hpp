// What the user's ssh configuration says of a host, as `ssh -G` prints it, and whether libssh can
// do it: a pure function.
//
// Source: ssh(1) -G, ssh_config(5).
#pragma once

#include "base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

struct SshConfig {
  std::string host;  // to connect to, and as known_hosts calls it
  std::string user;
  int port = 22;
  std::vector<std::string> identities;  // files of private keys; "~" is the home folder
  std::string known_hosts;              // the user's file; likewise
  std::string global_known_hosts;
  bool accepts_new_keys = false;
  // Comma-separated lists, best first.
  std::string ciphers;
  std::string macs;
  std::string key_exchanges;
  std::string host_keys;
  std::string public_keys;
};

// Error: what in it needs the system's ssh, such as "ProxyJump"; or that it is no configuration.
Result<SshConfig> parse_ssh_config(std::string_view text);

}  // namespace hvdrun
