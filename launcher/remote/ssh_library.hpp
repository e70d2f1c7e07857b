// libssh, opened at run time.
#pragma once

#include "base/result.hpp"

#include <libssh/libssh.h>

// The functions that a login calls; X(name).
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
  X(ssh_userauth_none)              \
  X(ssh_userauth_publickey_auto)

namespace hvdrun {

struct SshLibrary {
#define HVDRUN_SSH_MEMBER(name) decltype(&::name) name = nullptr;
  HVDRUN_SSH_SYMBOLS(HVDRUN_SSH_MEMBER)
#undef HVDRUN_SSH_MEMBER
};

// Opened by the first who asks; from any thread. Error: not installed, or too old.
Result<void> open_libssh();

// Once open_libssh() has succeeded.
const SshLibrary& libssh();

}  // namespace hvdrun
