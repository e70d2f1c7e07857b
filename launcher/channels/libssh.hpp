// A login on another host through libssh, which is opened at run time, and one command there whose
// streams are carried.
//
// All calls block, so each session has a thread to itself. Another thread that must not wait for it
// cuts its connection with shutdown(2); then all calls return. Errors have texts that
// explain_login_failure() understands.
//
// Source: libssh's API documentation (api.libssh.org), RFC 4252 to 4254.
#pragma once

#include "base/result.hpp"
#include "channels/ssh_config.hpp"
#include "common/fd.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <libssh/callbacks.h>
#include <libssh/libssh.h>

// The functions of libssh that a login calls: X(name) for each.
#define HVDRUN_SSH_SYMBOLS(X)       \
  X(ssh_channel_free)               \
  X(ssh_channel_get_exit_status)    \
  X(ssh_channel_is_eof)             \
  X(ssh_channel_new)                \
  X(ssh_channel_open_session)       \
  X(ssh_channel_poll)               \
  X(ssh_channel_read_nonblocking)   \
  X(ssh_channel_request_exec)       \
  X(ssh_channel_send_eof)           \
  X(ssh_channel_window_size)        \
  X(ssh_channel_write)              \
  X(ssh_connect)                    \
  X(ssh_disconnect)                 \
  X(ssh_free)                       \
  X(ssh_get_error)                  \
  X(ssh_get_fd)                     \
  X(ssh_get_poll_flags)             \
  X(ssh_is_connected)               \
  X(ssh_new)                        \
  X(ssh_options_set)                \
  X(ssh_session_is_known_server)    \
  X(ssh_session_update_known_hosts) \
  X(ssh_set_channel_callbacks)      \
  X(ssh_userauth_none)              \
  X(ssh_userauth_publickey_auto)

namespace hvdrun {

// The header may be newer than the library that is opened, and say that a function has a successor.
// The older function is called all the same: every libssh.so.4 has it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
struct SshLibrary {
#define HVDRUN_SSH_MEMBER(name) decltype(&::name) name = nullptr;
  HVDRUN_SSH_SYMBOLS(HVDRUN_SSH_MEMBER)
#undef HVDRUN_SSH_MEMBER
};
#pragma GCC diagnostic pop

// Opens libssh; the first call does. On any thread. Error: it is not installed, or too old.
Result<void> open_libssh();

// Returns the functions of libssh. Call it only after open_libssh() has succeeded.
const SshLibrary& libssh();

// Connects to one of the host's addresses by TCP. Calls `made` with each socket before it connects
// it. Error: the name cannot be resolved, or no address answers.
Result<Fd> connect_to_ssh(const SshConfig& config, std::chrono::seconds timeout,
                          const std::function<void(int)>& made);

struct ProxyEnd {
  std::optional<int> exit_code;  // of the command; nullopt: the connection was lost before
  std::string why;               // it was lost; "" if libssh does not say
};

class SshSession {
 public:
  // Checks the host's key and logs in with the user's keys or agent. Takes the socket. Error: the
  // handshake or the login failed, or the host's key is not accepted.
  static Result<SshSession> log_in(const SshConfig& config, Fd socket,
                                   std::chrono::seconds timeout);
  ~SshSession();
  SshSession(SshSession&&) noexcept;
  SshSession& operator=(SshSession&&) noexcept;

  // Starts the command in the user's shell there, as ssh does. Error: the host refuses.
  Result<void> start(const std::string& command);

  // Carries bytes between `local`, a socket, and the command's stdin and stdout until either ends.
  // Calls `on_text` with what the command prints on stderr.
  ProxyEnd proxy(int local, const std::function<void(std::string_view)>& on_text);

 private:
  class Impl;
  explicit SshSession(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvdrun
