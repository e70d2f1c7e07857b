#include "bootstrap/mesh.hpp"

#include "bootstrap/authenticated_acceptor.hpp"
#include "bootstrap/reachable_addresses.hpp"
#include "common/system.hpp"
#include "transport/mpi_streams.hpp"
#include "transport/socket_streams.hpp"

#include <algorithm>
#include <thread>

#include <poll.h>

namespace libhvd {
namespace {

using Sockets = std::vector<Connection>;

constexpr std::chrono::milliseconds kConnectPatience{5000};
constexpr std::chrono::milliseconds kPause{100};

constexpr const char* kAdvice = ". HVD_INTERFACE chooses the network between hosts";

std::string describe(const HostEntry& host) {
  return "rank " + std::to_string(host.number.value_or(host.leader)) + " on " + host.name;
}

std::string describe(const std::vector<Address>& addresses) {
  std::string text;
  for (const Address& address : addresses) text += (text.empty() ? "" : ", ") + address.text();
  return text;
}

// Each listener has a secret of its own, so that one who finds another host behind an address
// is told.
JobSecret secret_of_door(const JobSecret& secret, const HostEntry& host) {
  JobSecret own = secret;
  own.job_id += " at rank " + std::to_string(host.leader);
  return own;
}

Result<Connection> reach(const MeshConnection& connection, const JobSecret& secret,
                         const Deadline& deadline) {
  std::vector<Address> addresses = connection.peer.addresses;
  sort_by_nearness(addresses);
  std::string refusal;
  std::string reason;
  while (true) {
    for (const Address& address : addresses) {
      auto socket =
          connect_authenticated(address, secret_of_door(secret, connection.peer), connection.number,
                                deadline.at_most(kConnectPatience), refusal);
      if (socket.ok()) return std::move(socket->socket);
      reason = refusal.empty() ? address.text() + ": " + socket.error().message : refusal;
    }
    if (deadline.over()) break;
    // Nothing tells when a host can be reached again.
    ::poll(nullptr, 0, deadline.at_most(kPause).poll_ms());
  }
  return fail(HVD_ERROR_TIMEOUT, "cannot reach " + describe(connection.peer) + " at " +
                                     describe(connection.peer.addresses) + " (" + reason + ")" +
                                     kAdvice);
}

Result<Sockets> reach_all(const std::vector<MeshConnection>& connections, const JobSecret& secret,
                          const Deadline& deadline) {
  Sockets sockets;
  for (const MeshConnection& connection : connections) {
    HVD_TRY(Connection socket, reach(connection, secret, deadline));
    sockets.push_back(std::move(socket));
  }
  return sockets;
}

// The ranks whose connections have not come.
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

Result<Sockets> admit_all(std::vector<Fd> listeners, const HostEntry& own,
                          const std::vector<MeshConnection>& connections, const JobSecret& secret,
                          const Deadline& deadline) {
  AuthenticatedAcceptor acceptor(std::move(listeners), secret_of_door(secret, own));
  Sockets arrived(connections.size());
  const auto missing = [](const Connection& socket) { return !socket; };
  while (std::any_of(arrived.begin(), arrived.end(), missing)) {
    HVD_TRY(auto client, acceptor.next(deadline));
    if (!client) {
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

// A connection of this rank, before it is made.
struct Planned {
  int lane;
  int channel;
  int host;  // the other one
  MeshConnection connection;
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
    if (const auto address = local_address(listener)) addresses.push_back(*address);
  }
  return addresses;
}

// Admits and seeks acceptor at the same time, so that no rank waits for another's turn.
Result<std::vector<Connection>> connect_mesh(HostListener host_listener, const HostEntry& own,
                                             const std::vector<MeshConnection>& out,
                                             const std::vector<MeshConnection>& in,
                                             const JobSecret& secret,
                                             std::chrono::milliseconds timeout) {
  const Deadline deadline(timeout);
  Result<Sockets> admitted = Sockets();
  std::thread doorkeeper;
  try {
    const SignalsBlocked blocked;
    doorkeeper = std::thread([&] {
      admitted = admit_all(std::move(host_listener.listeners_), own, in, secret, deadline);
    });
  } catch (const std::system_error& error) {
    return fail(HVD_ERROR_SYSTEM,
                std::string("cannot start a thread that lets other hosts in: ") + error.what());
  }
  auto sockets = reach_all(out, secret, deadline);
  doorkeeper.join();
  if (!sockets.ok()) return sockets;
  if (!admitted.ok()) return admitted;
  for (Connection& socket : *admitted) sockets->push_back(std::move(socket));
  return sockets;
}

Result<std::vector<HostSocket>> join_hosts(HostListener host_listener,
                                           const std::vector<HostEntry>& hosts, int own,
                                           const JobSecret& secret,
                                           std::chrono::milliseconds timeout) {
  const HostEntry& here = hosts[static_cast<std::size_t>(own)];
  std::vector<MeshConnection> earlier;
  std::vector<MeshConnection> later;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    if (host < static_cast<std::size_t>(own)) earlier.push_back({hosts[host], here.leader});
    if (host > static_cast<std::size_t>(own)) later.push_back({hosts[host], hosts[host].leader});
  }
  HVD_TRY(auto connections,
          connect_mesh(std::move(host_listener), here, earlier, later, secret, timeout));
  std::vector<HostSocket> sockets;
  for (std::size_t i = 0; i < connections.size(); ++i) {
    const int host = static_cast<int>(i) + (i < static_cast<std::size_t>(own) ? 0 : 1);
    sockets.push_back({host, std::move(connections[i])});
  }
  return sockets;
}

Result<StreamLanes> join_streams(HostListener host_listener, const std::vector<HostEntry>& ranks,
                                 const std::vector<int>& hosts, int own, const JobSecret& secret,
                                 int lanes, std::chrono::milliseconds timeout) {
  const StreamPlan plan(hosts);
  const int own_host = hosts[static_cast<std::size_t>(own)];
  // The earlier host's rank is visited, and knows the visitor, lane and channel by the number.
  const auto number = [&](int visitor, int lane, int channel) {
    return 1 + (visitor * kLanes + lane) * plan.channels() + channel;
  };
  JobSecret numbered = secret;
  numbered.size = number(static_cast<int>(ranks.size()), 0, 0);
  std::vector<Planned> all;
  std::vector<MeshConnection> out;
  std::vector<MeshConnection> in;
  const auto add = [&](int lane, int channel, int host) {
    const int peer = plan.server(channel, host);
    const int visitor = host < own_host ? own : peer;
    const MeshConnection connection{ranks[static_cast<std::size_t>(peer)],
                                    number(visitor, lane, channel)};
    all.push_back({lane, channel, host, connection});
    (host < own_host ? out : in).push_back(connection);
  };
  const auto add_all = [&](int first_host, int end_host) {
    for (int lane = 0; lane < lanes; ++lane) {
      for (int channel = 0; channel < plan.channels(); ++channel) {
        if (plan.server(channel, own_host) != own) continue;
        for (int host = first_host; host < end_host; ++host) add(lane, channel, host);
      }
    }
  };
  add_all(0, own_host);  // in the order in which connect_mesh() returns them
  add_all(own_host + 1, plan.hosts());
  HVD_TRY(auto sockets, connect_mesh(std::move(host_listener), ranks[static_cast<std::size_t>(own)],
                                     out, in, numbered, timeout));
  std::array<std::vector<StreamEnd>, kLanes> ends;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ends[static_cast<std::size_t>(all[i].lane)].push_back(
        {all[i].channel, all[i].host, all[i].connection.peer.leader, std::move(sockets[i])});
  }
  StreamLanes streams;
  for (std::size_t lane = 0; lane < static_cast<std::size_t>(lanes); ++lane)
    streams[lane] = std::make_shared<SocketStreams>(plan, std::move(ends[lane]));
  return streams;
}

Result<StreamLanes> make_mpi_streams(const MpiLibrary& mpi, const std::vector<int>& hosts,
                                     const std::vector<int>& numbers, int own, int lanes,
                                     int first_tag) {
  const StreamPlan plan(hosts);
  HVD_CHECK(mpi.reserve_tags(first_tag, lanes * plan.channels()));
  const int own_host = hosts[static_cast<std::size_t>(own)];
  StreamLanes streams;
  for (int lane = 0; lane < lanes; ++lane) {
    std::vector<MpiEnd> ends;
    for (int channel = 0; channel < plan.channels(); ++channel) {
      if (plan.server(channel, own_host) != own) continue;
      for (int host = 0; host < plan.hosts(); ++host) {
        if (host == own_host) continue;
        const int peer = plan.server(channel, host);
        ends.push_back({channel, host, peer, numbers[static_cast<std::size_t>(peer)],
                        first_tag + lane * plan.channels() + channel});
      }
    }
    HVD_TRY(streams[static_cast<std::size_t>(lane)], MpiStreams::start(plan, mpi, ends));
  }
  return streams;
}

}  // namespace libhvd
