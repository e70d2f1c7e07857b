#include "channels/libssh.hpp"

#include "base/patience.hpp"
#include "common/bundled_library.hpp"
#include "common/net/tcp.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

namespace hvdrun {
namespace {

Result<SshLibrary> load_libssh() {
  const auto opened = open_own_or_bundled("libssh.so.4");
  if (!opened) return fail(opened.error());
  SshLibrary library;
#define HVDRUN_SSH_LOAD(name) \
  if (!opened->find(#name, library.name)) return fail("libssh.so.4 has no " #name);
  HVDRUN_SSH_SYMBOLS(HVDRUN_SSH_LOAD)
#undef HVDRUN_SSH_LOAD
  return library;
}

const Result<SshLibrary>& libssh_library() {
  static const Result<SshLibrary> library = load_libssh();
  return library;
}

constexpr std::size_t kBufferSize = 64u << 10;

struct FreeSession {
  void operator()(ssh_session session) const { libssh().ssh_free(session); }
};
struct FreeChannel {
  void operator()(ssh_channel channel) const { libssh().ssh_channel_free(channel); }
};
using Session = std::unique_ptr<ssh_session_struct, FreeSession>;
using Channel = std::unique_ptr<ssh_channel_struct, FreeChannel>;

// --- connecting ----------------------------------------------------------------------------------

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

// Connects. Returns 0, or an errno.
int connect_in_time(int socket, const Address& address, Patience& patience) {
  if (const int error = connect_tcp(socket, address); error != 0) return error;
  return patience.wait(socket, POLLOUT) ? connect_error(socket) : ETIMEDOUT;
}

// Guards the user's file of known hosts, into which several threads may write new keys.
std::mutex known_hosts_mutex;

// Returns whether libssh tries this file by itself. Otherwise a key would be offered twice, and
// servers limit the number of offers.
bool is_tried_anyway(std::string_view file) {
  constexpr std::array<std::string_view, 4> kFiles{"~/.ssh/id_ed25519", "~/.ssh/id_ecdsa",
                                                   "~/.ssh/id_rsa", "~/.ssh/id_dsa"};
  return std::find(kFiles.begin(), kFiles.end(), file) != kFiles.end();
}

Result<void> set(ssh_session session, ssh_options_e option, const void* value) {
  if (libssh().ssh_options_set(session, option, value) == SSH_OK) return {};
  return fail(libssh().ssh_get_error(session));
}

Result<void> configure(ssh_session session, const SshConfig& config, int socket, long timeout) {
  const bool no_config = false;
  HVD_CHECK(set(session, SSH_OPTIONS_PROCESS_CONFIG, &no_config));
  HVD_CHECK(set(session, SSH_OPTIONS_HOST, config.host.c_str()));
  HVD_CHECK(set(session, SSH_OPTIONS_USER, config.user.c_str()));
  HVD_CHECK(set(session, SSH_OPTIONS_PORT, &config.port));
  HVD_CHECK(set(session, SSH_OPTIONS_FD, &socket));
  HVD_CHECK(set(session, SSH_OPTIONS_TIMEOUT, &timeout));
  // Each call adds a file before the others. libssh's own, which ssh would also try, come last.
  for (auto file = config.identities.rbegin(); file != config.identities.rend(); ++file)
    if (!is_tried_anyway(*file)) HVD_CHECK(set(session, SSH_OPTIONS_ADD_IDENTITY, file->c_str()));
  const std::array lists{
      std::pair{SSH_OPTIONS_KNOWNHOSTS, &config.known_hosts},
      std::pair{SSH_OPTIONS_GLOBAL_KNOWNHOSTS, &config.global_known_hosts},
      std::pair{SSH_OPTIONS_CIPHERS_C_S, &config.ciphers},
      std::pair{SSH_OPTIONS_CIPHERS_S_C, &config.ciphers},
      std::pair{SSH_OPTIONS_HMAC_C_S, &config.macs},
      std::pair{SSH_OPTIONS_HMAC_S_C, &config.macs},
      std::pair{SSH_OPTIONS_KEY_EXCHANGE, &config.key_exchanges},
      std::pair{SSH_OPTIONS_HOSTKEYS, &config.host_keys},
      std::pair{SSH_OPTIONS_PUBLICKEY_ACCEPTED_TYPES, &config.public_keys},
  };
  for (const auto& [option, value] : lists)
    if (!value->empty()) HVD_CHECK(set(session, option, value->c_str()));
  return {};
}

Result<void> check_key(ssh_session session, bool accepts_new) {
  switch (libssh().ssh_session_is_known_server(session)) {
    case SSH_KNOWN_HOSTS_OK:
      return {};
    case SSH_KNOWN_HOSTS_NOT_FOUND:
    case SSH_KNOWN_HOSTS_UNKNOWN: {
      if (!accepts_new) return fail("Host key verification failed: it is not known");
      const std::lock_guard lock(known_hosts_mutex);
      if (libssh().ssh_session_update_known_hosts(session) == SSH_OK) return {};
      return fail(fmt::format("cannot note its key: {}", libssh().ssh_get_error(session)));
    }
    case SSH_KNOWN_HOSTS_CHANGED:
    case SSH_KNOWN_HOSTS_OTHER:
      return fail("Host key verification failed: it has changed");
    default:
      return fail(fmt::format("Host key verification failed: {}", libssh().ssh_get_error(session)));
  }
}

Result<void> authenticate(ssh_session session) {
  // Makes the server list its methods. Some servers accept a known user by this alone.
  if (libssh().ssh_userauth_none(session, nullptr) == SSH_AUTH_SUCCESS) return {};
  switch (libssh().ssh_userauth_publickey_auto(session, nullptr, nullptr)) {
    case SSH_AUTH_SUCCESS:
      return {};
    case SSH_AUTH_DENIED:
    case SSH_AUTH_PARTIAL:
      return fail("Permission denied");
    default:
      return fail(libssh().ssh_get_error(session));
  }
}

}  // namespace

Result<void> open_libssh() {
  if (!libssh_library()) return libssh_library().error();
  return {};
}

const SshLibrary& libssh() {
  return *libssh_library();
}

Result<Fd> connect_to_ssh(const SshConfig& config, std::chrono::seconds timeout,
                          const std::function<void(int)>& made) {
  Patience patience(timeout);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  const int code =
      ::getaddrinfo(config.host.c_str(), std::to_string(config.port).c_str(), &hints, &found);
  if (code != 0)
    return fail(
        fmt::format("Could not resolve hostname {}: {}", config.host, ::gai_strerror(code)));
  const std::unique_ptr<addrinfo, FreeAddresses> addresses(found);
  int error = EHOSTUNREACH;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    Address to;
    to.length = address->ai_addrlen;
    std::memcpy(&to.storage, address->ai_addr, to.length);
    auto socket = make_tcp_socket(to);
    if (!socket) {
      error = socket.error();
      continue;
    }
    made(socket->get());
    error = connect_in_time(socket->get(), to, patience);
    if (error == 0) return std::move(*socket);
  }
  return fail_errno(fmt::format("connect to host {} port {}", config.host, config.port), error);
}

class SshSession::Impl {
 public:
  explicit Impl(Session session) : session_(std::move(session)), buffer_(kBufferSize) {}
  ~Impl() {
    channel_.reset();
    if (session_) libssh().ssh_disconnect(session_.get());
  }

  Result<void> log_in(bool accepts_new_keys) {
    HVD_CHECK(check_key(session_.get(), accepts_new_keys));
    return authenticate(session_.get());
  }
  Result<void> start(const std::string& command);
  ProxyEnd proxy(int local, const std::function<void(std::string_view)>& on_text);

 private:
  enum class Transfer { open, over };

  // libssh calls it with each packet of data. Any of its functions may receive one, also of the
  // stream that the call is not about. Returns 0: the data stays in libssh.
  static int on_data(ssh_session, ssh_channel, void*, std::uint32_t, int, void* self) {
    static_cast<Impl*>(self)->received_ = true;
    return 0;
  }

  // Each moves what can be moved without waiting, and sets `moved_` if that was anything.
  Transfer take_from_host(int local);
  void take_errors(const std::function<void(std::string_view)>& on_text);
  Transfer take_from_local(int local);
  bool wait(int local);
  bool has_input();
  bool has_ended();

  Session session_;
  ssh_channel_callbacks_struct callbacks_{};  // libssh reads it until the channel is freed
  Channel channel_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // of the bytes in the buffer, which go to the local end
  std::size_t end_ = 0;
  bool local_open_ = true;
  bool moved_ = false;
  bool received_ = false;  // there may be data to move that was not there before
};

Result<void> SshSession::Impl::start(const std::string& command) {
  channel_.reset(libssh().ssh_channel_new(session_.get()));
  callbacks_.size = sizeof callbacks_;
  callbacks_.userdata = this;
  callbacks_.channel_data_function = &Impl::on_data;
  if (!channel_ || libssh().ssh_set_channel_callbacks(channel_.get(), &callbacks_) != SSH_OK ||
      libssh().ssh_channel_open_session(channel_.get()) != SSH_OK ||
      libssh().ssh_channel_request_exec(channel_.get(), command.c_str()) != SSH_OK)
    return fail(
        fmt::format("no command can be started: {}", libssh().ssh_get_error(session_.get())));
  return {};
}

ProxyEnd SshSession::Impl::proxy(int local, const std::function<void(std::string_view)>& on_text) {
  bool has_code = false;
  while (!has_code) {
    moved_ = received_ = false;
    if (take_from_host(local) == Transfer::over) break;
    take_errors(on_text);
    if (take_from_local(local) == Transfer::over) break;
    if (moved_ || received_) continue;
    has_code = has_ended();
    // libssh may have received more in this turn. That is no longer in the socket, so poll(2) does
    // not see it.
    if (!has_code && !received_ && !wait(local)) break;
  }
  // libssh waits for the exit code. It does not come over a lost connection.
  ProxyEnd end;
  if (has_code || libssh().ssh_channel_is_eof(channel_.get()) != 0)
    if (const int code = libssh().ssh_channel_get_exit_status(channel_.get()); code >= 0)
      end.exit_code = code;
  if (!end.exit_code) end.why = libssh().ssh_get_error(session_.get());
  return end;
}

SshSession::Impl::Transfer SshSession::Impl::take_from_host(int local) {
  if (begin_ == end_) {
    const int got = libssh().ssh_channel_read_nonblocking(
        channel_.get(), buffer_.data(), static_cast<std::uint32_t>(buffer_.size()), 0);
    if (got == SSH_ERROR) return Transfer::over;
    begin_ = 0;
    end_ = got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  if (begin_ == end_) return Transfer::open;
  const ssize_t sent = ::send(local, buffer_.data() + begin_, end_ - begin_, MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN || errno == EINTR ? Transfer::open : Transfer::over;
  begin_ += static_cast<std::size_t>(sent);
  moved_ = true;
  return Transfer::open;
}

void SshSession::Impl::take_errors(const std::function<void(std::string_view)>& on_text) {
  std::array<char, 4096> text;  // NOLINT: filled by the call
  const int got =
      libssh().ssh_channel_read_nonblocking(channel_.get(), text.data(), text.size(), 1);
  if (got <= 0) return;
  on_text({text.data(), static_cast<std::size_t>(got)});
  moved_ = true;
}

SshSession::Impl::Transfer SshSession::Impl::take_from_local(int local) {
  const auto window = libssh().ssh_channel_window_size(channel_.get());
  if (!local_open_ || window == 0) return Transfer::open;
  std::array<char, kBufferSize / 2> bytes;  // NOLINT: filled by recv
  const ssize_t got = ::recv(local, bytes.data(), std::min<std::size_t>(bytes.size(), window), 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Transfer::open : Transfer::over;
  moved_ = true;
  if (got == 0) {
    local_open_ = false;
    return libssh().ssh_channel_send_eof(channel_.get()) == SSH_OK ? Transfer::open
                                                                   : Transfer::over;
  }
  const auto size = static_cast<std::uint32_t>(got);
  const int sent = libssh().ssh_channel_write(channel_.get(), bytes.data(), size);
  if (sent == static_cast<int>(size)) return Transfer::open;
  // A command that has ended takes no more, and its last words may not have been read yet.
  local_open_ = false;
  return libssh().ssh_channel_is_eof(channel_.get()) != 0 || has_input() ? Transfer::open
                                                                         : Transfer::over;
}

// Returns whether there is something to read from the command.
bool SshSession::Impl::has_input() {
  return begin_ != end_ || libssh().ssh_channel_poll(channel_.get(), 0) > 0 ||
         libssh().ssh_channel_poll(channel_.get(), 1) > 0;
}

bool SshSession::Impl::has_ended() {
  return libssh().ssh_channel_is_eof(channel_.get()) != 0 && !has_input();
}

// Waits until something can be moved. Returns false if the connection is lost.
bool SshSession::Impl::wait(int local) {
  const bool has_window = libssh().ssh_channel_window_size(channel_.get()) > 0;
  short host_events = POLLIN;
  if ((libssh().ssh_get_poll_flags(session_.get()) & SSH_WRITE_PENDING) != 0)
    host_events |= POLLOUT;
  short local_events = 0;
  if (local_open_ && has_window) local_events |= POLLIN;
  if (begin_ != end_) local_events |= POLLOUT;
  std::array waiting{pollfd{libssh().ssh_get_fd(session_.get()), host_events, 0},
                     pollfd{local_events != 0 ? local : -1, local_events, 0}};
  while (::poll(waiting.data(), waiting.size(), -1) < 0 && errno == EINTR) {
  }
  // The connection was cut while the local end takes nothing, so libssh does not read and notice.
  if ((waiting[0].revents & (POLLHUP | POLLERR)) != 0 && begin_ != end_) return false;
  return libssh().ssh_is_connected(session_.get()) != 0;
}

SshSession::SshSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SshSession::~SshSession() = default;
SshSession::SshSession(SshSession&&) noexcept = default;
SshSession& SshSession::operator=(SshSession&&) noexcept = default;

Result<SshSession> SshSession::log_in(const SshConfig& config, Fd socket,
                                      std::chrono::seconds timeout) {
  Session session(libssh().ssh_new());
  if (!session) return fail("out of memory");
  HVD_CHECK(configure(session.get(), config, socket.get(), timeout.count()));
  socket.release();  // the session closes it
  if (libssh().ssh_connect(session.get()) != SSH_OK)
    return fail(libssh().ssh_get_error(session.get()));
  auto impl = std::make_unique<Impl>(std::move(session));
  HVD_CHECK(impl->log_in(config.accepts_new_keys));
  return SshSession(std::move(impl));
}

Result<void> SshSession::start(const std::string& command) {
  return impl_->start(command);
}

ProxyEnd SshSession::proxy(int local, const std::function<void(std::string_view)>& on_text) {
  return impl_->proxy(local, on_text);
}

}  // namespace hvdrun
