#include "bootstrap/socket.hpp"

#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

namespace libhvd {
namespace {

constexpr int kFirstDataWithin = 5;  // seconds

const sockaddr* generic(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address.storage);
}

const sockaddr_in& v4(const Address& address) {
  return reinterpret_cast<const sockaddr_in&>(address.storage);
}
const sockaddr_in6& v6(const Address& address) {
  return reinterpret_cast<const sockaddr_in6&>(address.storage);
}

Result<void> wait_until(const Fd& socket, short events, const Deadline& deadline) {
  while (true) {
    std::vector<pollfd> entries{{socket.get(), events, 0}};
    const int ready = poll_until(entries, deadline);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail_errno("cannot wait for a connection", errno);
    if (deadline.over()) return fail(HVD_ERROR_TIMEOUT, "no answer in time");
  }
}

Result<Fd> open_socket(const Address& address) {
  Fd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return fail_errno("cannot open a socket", errno);
  return socket;
}

void set_flag(const Fd& socket, int level, int option, int value) {
  ::setsockopt(socket.get(), level, option, &value, sizeof value);
}

Error closed() {
  return fail(HVD_ERROR_PEER, "the other side has closed the connection");
}

template <class Send>
Result<void> send_all_by(const Fd& socket, Bytes data, const Deadline& deadline, Send send) {
  while (!data.empty()) {
    const ssize_t sent = send(data);
    if (sent >= 0) {
      data = data.subspan(static_cast<std::size_t>(sent));
    } else if (would_block(errno)) {
      HVD_CHECK(wait_until(socket, POLLOUT, deadline));
    } else {
      return closed();
    }
  }
  return {};
}

template <class Receive>
Result<void> receive_all_by(const Fd& socket, std::span<std::uint8_t> data,
                            const Deadline& deadline, Receive receive) {
  while (!data.empty()) {
    HVD_TRY(const std::size_t count, receive(data));
    data = data.subspan(count);
    if (count == 0) HVD_CHECK(wait_until(socket, POLLIN, deadline));
  }
  return {};
}

// Converts the result of a read: -1 with errno EBADMSG means that TLS has found a changed record.
Result<std::size_t> received(ssize_t count) {
  if (count > 0) return static_cast<std::size_t>(count);
  if (count < 0 && would_block(errno)) return std::size_t{0};
  if (count < 0 && errno == EBADMSG)
    return fail(HVD_ERROR_PEER, "what it sent was changed on its way");
  return closed();
}

}  // namespace

Address Address::with_port(std::uint16_t port) const {
  Address copy = *this;
  if (storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&copy.storage)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&copy.storage)->sin_port = htons(port);
  }
  return copy;
}

std::uint16_t Address::port() const {
  return ntohs(storage.ss_family == AF_INET6 ? v6(*this).sin6_port : v4(*this).sin_port);
}

bool Address::is_loopback() const {
  if (storage.ss_family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&v6(*this).sin6_addr);
  return (ntohl(v4(*this).sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
}

std::string Address::host() const {
  char host[NI_MAXHOST];
  if (::getnameinfo(generic(*this), length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) {
    return "an unknown address";
  }
  return host;
}

std::string Address::text() const {
  return host() + " port " + std::to_string(port());
}

bool same_host(const Address& a, const Address& b) {
  return a.host() == b.host();
}

Result<std::vector<Address>> resolve(const std::string& host, int flags) {
  addrinfo hints{};
  hints.ai_flags = flags;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &list); code != 0) {
    return fail(HVD_ERROR_ENVIRONMENT,
                "cannot find the address of \"" + host + "\": " + ::gai_strerror(code));
  }
  std::vector<Address> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    Address address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    addresses.push_back(address);
  }
  ::freeaddrinfo(list);
  return addresses;
}

std::vector<Address> any_address() {
  Address v6;
  v6.storage.ss_family = AF_INET6;
  v6.length = sizeof(sockaddr_in6);
  Address v4;
  v4.storage.ss_family = AF_INET;
  v4.length = sizeof(sockaddr_in);
  return {v6, v4};
}

Result<Fd> listen_on(const Address& address) {
  bool taken = false;
  return listen_on(address, taken);
}

Result<Fd> listen_on(const Address& address, bool& taken) {
  HVD_TRY(Fd socket, open_socket(address));
  set_flag(socket, SOL_SOCKET, SO_REUSEADDR, 1);  // for a port that an earlier job has just left
  if (address.storage.ss_family == AF_INET6) set_flag(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  // A client sends first. Connections that have sent nothing stay in the kernel.
  set_flag(socket, IPPROTO_TCP, TCP_DEFER_ACCEPT, kFirstDataWithin);
  if (::bind(socket.get(), generic(address), address.length) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    taken = errno == EADDRINUSE;
    return fail_errno("cannot listen on " + address.text(), errno);
  }
  return socket;
}

std::optional<Address> local_address(const Fd& socket) {
  Address address;
  address.length = sizeof address.storage;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.length) !=
      0) {
    return std::nullopt;
  }
  if (address.storage.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6(address).sin6_addr)) {
    sockaddr_in plain{};
    plain.sin_family = AF_INET;
    plain.sin_port = v6(address).sin6_port;
    std::memcpy(&plain.sin_addr, v6(address).sin6_addr.s6_addr + 12, sizeof plain.sin_addr);
    std::memcpy(&address.storage, &plain, sizeof plain);
    address.length = sizeof plain;
  }
  return address;
}

// Tries again after other errors of accept(2), because they concern one connection that is gone.
Result<Fd> accept_from(const Fd& listener) {
  while (true) {
    Fd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      set_flag(socket, IPPROTO_TCP, TCP_NODELAY, 1);
      return socket;
    }
    if (would_block(errno) && errno != EINTR) return Fd();
    if (errno == EMFILE || errno == ENFILE || errno == EBADF || errno == EINVAL ||
        errno == ENOTSOCK || errno == EPERM)
      return fail_errno("cannot accept a connection", errno);
  }
}

Result<Fd> begin_connect(const Address& address) {
  HVD_TRY(Fd socket, open_socket(address));
  if (::connect(socket.get(), generic(address), address.length) != 0 && errno != EINPROGRESS)
    return fail_errno("cannot connect to " + address.text(), errno);
  return socket;
}

Result<void> end_connect(const Fd& socket, const Address& address) {
  int code = 0;
  socklen_t length = sizeof code;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &length);
  if (code != 0) return fail_errno("cannot connect to " + address.text(), code);
  set_flag(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  return {};
}

Result<Fd> connect_to(const Address& address, const Deadline& deadline) {
  HVD_TRY(Fd socket, begin_connect(address));
  if (auto waited = wait_until(socket, POLLOUT, deadline); !waited.ok())
    return with_context("cannot connect to " + address.text(), waited.error());
  HVD_CHECK(end_connect(socket, address));
  return socket;
}

Result<void> send_all(const Fd& socket, Bytes data, const Deadline& deadline) {
  return send_all_by(socket, data, deadline, [&](Bytes rest) {
    return ::send(socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
  });
}

Result<void> send_all(const Connection& connection, Bytes data, const Deadline& deadline) {
  return send_all_by(connection.socket(), data, deadline,
                     [&](Bytes rest) { return connection.send(rest.data(), rest.size()); });
}

Result<void> wait_for_data(const Fd& socket, const Deadline& deadline) {
  return wait_until(socket, POLLIN, deadline);
}

Result<void> receive_all(const Fd& socket, std::span<std::uint8_t> data, const Deadline& deadline) {
  return receive_all_by(socket, data, deadline,
                        [&](std::span<std::uint8_t> rest) { return receive_some(socket, rest); });
}

Result<void> receive_all(const Connection& connection, std::span<std::uint8_t> data,
                         const Deadline& deadline) {
  return receive_all_by(connection.socket(), data, deadline, [&](std::span<std::uint8_t> rest) {
    return receive_some(connection, rest);
  });
}

Result<std::size_t> receive_some(const Fd& socket, std::span<std::uint8_t> data) {
  return received(::recv(socket.get(), data.data(), data.size(), 0));
}

Result<std::size_t> receive_some(const Connection& connection, std::span<std::uint8_t> data) {
  return received(connection.receive(data.data(), data.size()));
}

Result<Connection> secure(Fd socket, Tls::Side side, const Digest& key, const Deadline& deadline) {
  HVD_TRY(auto tls, Tls::start(socket.get(), side, key));
  while (true) {
    HVD_TRY(const short awaited, tls->handshake());
    if (awaited == 0) return Connection(std::move(socket), std::move(tls));
    HVD_CHECK(wait_until(socket, awaited, deadline));
  }
}

}  // namespace libhvd
