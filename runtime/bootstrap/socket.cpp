#include "bootstrap/socket.hpp"

#include "common/net/tcp.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

namespace libhvd {
namespace {

// The name of a connection's key, see TlsKey.
constexpr const char* kKeyName = "hvd";

Result<void> wait_until(const Fd& socket, short events, const Deadline& deadline) {
  while (true) {
    pollfd entry{socket.get(), events, 0};
    const int ready = ::poll(&entry, 1, deadline.poll_ms());
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail_errno("cannot wait for a connection", errno);
    if (deadline.over()) return fail(HVD_ERROR_TIMEOUT, "no answer in time");
  }
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
  auto listener = make_listener(address);
  if (listener.ok()) return std::move(*listener);
  taken = listener.error() == EADDRINUSE;
  return fail_errno("cannot listen on " + address.text(), listener.error());
}

Result<Fd> begin_connect(const Address& address) {
  auto socket = make_tcp_socket(address);
  if (!socket.ok()) return fail_errno("cannot open a socket", socket.error());
  if (const int error = connect_tcp(socket->get(), address); error != 0)
    return fail_errno("cannot connect to " + address.text(), error);
  return std::move(*socket);
}

Result<void> end_connect(const Fd& socket, const Address& address) {
  const int error = connect_error(socket.get());
  if (error != 0) return fail_errno("cannot connect to " + address.text(), error);
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

Result<std::unique_ptr<Tls>> start_tls(int socket, Tls::Side side, const Digest& key,
                                       std::uint64_t records_per_key) {
  auto tls = Tls::start(socket, side, TlsKey{kKeyName, key}, records_per_key);
  if (!tls.ok()) return fail(HVD_ERROR_SYSTEM, tls.error());
  return std::move(*tls);
}

Result<Connection> secure(Fd socket, Tls::Side side, const Digest& key, const Deadline& deadline) {
  HVD_TRY(auto tls, start_tls(socket.get(), side, key));
  while (true) {
    const auto awaited = tls->handshake();
    if (!awaited.ok()) return fail(HVD_ERROR_PEER, awaited.error());
    if (*awaited == 0) return Connection(std::move(socket), std::move(tls));
    HVD_CHECK(wait_until(socket, *awaited, deadline));
  }
}

}  // namespace libhvd
