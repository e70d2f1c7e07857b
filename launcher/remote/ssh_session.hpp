// A login on another host through libssh, and one command there whose streams are carried.
//
// Blocks: each session has a thread to itself. What must not wait for it cuts its connection with
// shutdown(2), and all calls return.
//
// Source: libssh's API documentation (api.libssh.org), RFC 4252 to 4254.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "remote/ssh_config.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace hvdrun {

// A TCP connection to one of the host's addresses; `made` is called with each socket before it is
// connected. Error: in the words of explain_ssh_failure().
Result<Fd> connect_to_ssh(const SshConfig& config, std::chrono::seconds patience,
                          const std::function<void(int)>& made);

class SshSession {
 public:
  // Checks the host's key and logs in with the user's keys or agent. Error: why not.
  static Result<SshSession> log_in(const SshConfig& config, Fd socket,
                                   std::chrono::seconds patience);
  ~SshSession();
  SshSession(SshSession&&) noexcept;
  SshSession& operator=(SshSession&&) noexcept;

  // Starts the command with a shell of the user's there, as ssh does.
  Result<void> start(const std::string& command);

  // Carries between `local`, a socket, and the command's stdin and stdout until either ends; what
  // it prints on stderr goes to `on_text`. Returns its exit code; 128 + 9 when the connection was
  // lost before it had one.
  int carry(int local, const std::function<void(std::string_view)>& on_text);

 private:
  class Impl;
  explicit SshSession(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvdrun
