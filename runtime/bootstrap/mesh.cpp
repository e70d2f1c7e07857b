#include "bootstrap/mesh.hpp"

#include "base/thread.hpp"
#include "bootstrap/authenticated_acceptor.hpp"
#include "bootstrap/reachable_addresses.hpp"

#include <algorithm>
#include <cstddef>
#include <thread>
#include <utility>

#include <poll.h>

namespace libhvd {
namespace {

using Sockets = std::vector<Connection>;

constexpr std::chrono::milliseconds kConnectTimeout{5000};
constexpr std::chrono::milliseconds kRetryPause{100};

constexpr const char* kAdvice = ". HVD_INTERFACE chooses the network between hosts";

std::string describe(const HostEntry& host) {
  return "rank " + std::to_string(host.number.value_or(host.leader)) + " on " + host.name;
}

std::string describe(const std::vector<Address>& addresses) {
  std::string text;
  for (const Address& address : addresses) text += (text.empty() ? "" : ", ") + address.text();
  return text;
}

// Returns the secret of one rank's listener. Each listener has its own, so that a rank that reaches
// another host at an address gets a refusal.
JobSecret secret_of_listener(const JobSecret& secret, const HostEntry& host) {
  JobSecret own = secret;
  own.job_id += " at rank " + std::to_string(host.leader);
  return own;
}

// Connects to a rank; tries again until the deadline.
Result<Connection> reach(const MeshConnection& connection, const JobSecret& secret,
                         const Deadline& deadline) {
  std::vector<Address> addresses = connection.peer.addresses;
  sort_by_nearness(addresses);
  std::string refusal;
  std::string reason;
  while (true) {
    for (const Address& address : addresses) {
      auto socket =
          connect_authenticated(address, secret_of_listener(secret, connection.peer),
                                connection.number, deadline.at_most(kConnectTimeout), refusal);
      if (socket.ok()) return std::move(socket->socket);
      reason = refusal.empty() ? address.text() + ": " + socket.error().message : refusal;
    }
    if (deadline.over()) break;
    // There is no event for a host that becomes reachable, so this tries again after a pause.
    std::vector<pollfd> none;
    poll_until(none, deadline.at_most(kRetryPause));
  }
  return fail(HVD_ERROR_TIMEOUT, "cannot reach " + describe(connection.peer) + " at " +
                                     describe(connection.peer.addresses) + " (" + reason + ")" +
                                     kAdvice);
}

// After an error `unreached` is the rank that it is about.
Result<Sockets> reach_all(const std::vector<MeshConnection>& connections, const JobSecret& secret,
                          const Deadline& deadline, std::optional<int>& unreached) {
  Sockets sockets;
  for (const MeshConnection& connection : connections) {
    auto socket = reach(connection, secret, deadline);
    if (!socket.ok()) unreached = connection.peer.leader;
    if (!socket.ok()) return socket.error();
    sockets.push_back(std::move(*socket));
  }
  return sockets;
}

// Returns the names of the ranks that have not connected.
std::string describe_missing(const std::vector<MeshConnection>& connections,
                             const Sockets& arrived) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < connections.size(); ++i) {
    const std::string name = describe(connections[i].peer);
    const bool named = std::find(names.begin(), names.end(), name) != names.end();
    if (!arrived[i] && !named) names.push_back(name);
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// Accepts the connections. Returns them in the order of `connections`. After a time-out `unreached`
// is the first rank that has not connected.
Result<Sockets> accept_all(std::vector<Fd> listeners, const HostEntry& own,
                           const std::vector<MeshConnection>& connections, const JobSecret& secret,
                           const Deadline& deadline, std::optional<int>& unreached) {
  AuthenticatedAcceptor acceptor(std::move(listeners), secret_of_listener(secret, own));
  Sockets arrived(connections.size());
  const auto missing = [](const Connection& socket) { return !socket; };
  while (std::any_of(arrived.begin(), arrived.end(), missing)) {
    HVD_TRY(auto client, acceptor.next(deadline));
    if (!client) {
      const auto first = std::find_if(arrived.begin(), arrived.end(), missing) - arrived.begin();
      unreached = connections[static_cast<std::size_t>(first)].peer.leader;
      return fail(HVD_ERROR_TIMEOUT, "there was no connection from " +
                                         describe_missing(connections, arrived) + " to " +
                                         describe(own.addresses) + kAdvice);
    }
    for (std::size_t i = 0; i < connections.size(); ++i) {
      if (connections[i].number == client->rank && client->connection.socket)
        arrived[i] = std::move(client->connection.socket);
    }
  }
  return arrived;
}

// Is joined even if a function throws.
struct JoinedThread {
  std::thread thread;
  ~JoinedThread() {
    if (thread.joinable()) thread.join();
  }
};

}  // namespace

Result<HostListener> HostListener::open(const std::string& interface,
                                        const std::optional<Address>& known) {
  HVD_TRY(const auto addresses, reachable_addresses(interface, known));
  HostListener host_listener;
  Error last = fail(HVD_ERROR_SYSTEM, "this host has no network address");
  for (const Address& address : addresses) {
    auto listener = listen_on(address);
    if (listener.ok()) {
      host_listener.listeners_.push_back(std::move(*listener));
    } else {
      last = listener.error();
    }
  }
  if (host_listener.listeners_.empty()) {
    return with_context("no connection from other hosts is possible",
                        fail(last.status, last.message + kAdvice));
  }
  return host_listener;
}

std::vector<Address> HostListener::addresses() const {
  std::vector<Address> addresses;
  for (const Fd& listener : listeners_) {
    if (const auto address = local_address(listener.get())) addresses.push_back(*address);
  }
  return addresses;
}

Result<std::vector<Connection>> connect_mesh(HostListener host_listener, const HostEntry& own,
                                             const std::vector<MeshConnection>& out,
                                             const std::vector<MeshConnection>& in,
                                             const JobSecret& secret, const Deadline& deadline,
                                             std::optional<int>* unreached) {
  Result<Sockets> accepted = Sockets();
  std::optional<int> no_answer;
  std::optional<int> not_come;
  JoinedThread accepting;
  HVD_TRY(accepting.thread, start_thread("lets other hosts in", [&] {
            accepted = accept_all(std::move(host_listener.listeners_), own, in, secret, deadline,
                                  not_come);
          }));
  auto sockets = reach_all(out, secret, deadline, no_answer);
  accepting.thread.join();
  if (unreached != nullptr) *unreached = no_answer ? no_answer : not_come;
  if (!sockets.ok()) return sockets;
  if (!accepted.ok()) return accepted;
  for (Connection& socket : *accepted) sockets->push_back(std::move(socket));
  return sockets;
}

Result<std::vector<HostSocket>> join_hosts(HostListener host_listener,
                                           const std::vector<HostEntry>& hosts, int own,
                                           const JobSecret& secret, const Deadline& deadline,
                                           std::optional<int>* unreached) {
  const HostEntry& here = hosts[static_cast<std::size_t>(own)];
  std::vector<MeshConnection> earlier;
  std::vector<MeshConnection> later;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    if (host < static_cast<std::size_t>(own)) earlier.push_back({hosts[host], here.leader});
    if (host > static_cast<std::size_t>(own)) later.push_back({hosts[host], hosts[host].leader});
  }
  HVD_TRY(auto connections, connect_mesh(std::move(host_listener), here, earlier, later, secret,
                                         deadline, unreached));
  std::vector<HostSocket> sockets;
  for (std::size_t i = 0; i < connections.size(); ++i) {
    const int host = static_cast<int>(i) + (i < static_cast<std::size_t>(own) ? 0 : 1);
    sockets.push_back({host, std::move(connections[i])});
  }
  return sockets;
}

}  // namespace libhvd
