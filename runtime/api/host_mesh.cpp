#include "api/host_mesh.hpp"

#include "base/signals_blocked.hpp"
#include "bootstrap/admission.hpp"
#include "bootstrap/interfaces.hpp"

#include <algorithm>
#include <thread>

#include <poll.h>

namespace libhvd {
namespace {

using Sockets = std::vector<Connection>;

constexpr std::chrono::milliseconds kAttemptPatience{5000};
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

// Each door has a secret of its own, so that one who finds another host behind an address is told.
JobSecret secret_of_door(const JobSecret& secret, const HostEntry& host) {
  JobSecret own = secret;
  own.job_id += " at rank " + std::to_string(host.leader);
  return own;
}

Result<Connection> reach(const Visit& visit, const JobSecret& secret, const Deadline& deadline) {
  std::vector<Address> addresses = visit.peer.addresses;
  sort_by_nearness(addresses);
  std::string refusal;
  std::string reason;
  while (true) {
    for (const Address& address : addresses) {
      auto socket = seek_admission(address, secret_of_door(secret, visit.peer), visit.number,
                                   deadline.at_most(kAttemptPatience), refusal);
      if (socket.ok()) return std::move(socket->socket);
      reason = refusal.empty() ? address.text() + ": " + socket.error().message : refusal;
    }
    if (deadline.over()) break;
    // Nothing tells when a host can be reached again.
    ::poll(nullptr, 0, deadline.at_most(kPause).poll_ms());
  }
  return fail(HVD_ERROR_TIMEOUT, "cannot reach " + describe(visit.peer) + " at " +
                                     describe(visit.peer.addresses) + " (" + reason + ")" +
                                     kAdvice);
}

Result<Sockets> reach_all(const std::vector<Visit>& visits, const JobSecret& secret,
                          const Deadline& deadline) {
  Sockets sockets;
  for (const Visit& visit : visits) {
    HVD_TRY(Connection socket, reach(visit, secret, deadline));
    sockets.push_back(std::move(socket));
  }
  return sockets;
}

// The ranks whose connections have not come.
std::string describe_missing(const std::vector<Visit>& visits, const Sockets& arrived) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < visits.size(); ++i) {
    const std::string name = describe(visits[i].peer);
    const bool named = std::find(names.begin(), names.end(), name) != names.end();
    if (!arrived[i] && !named) names.push_back(name);
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

Result<Sockets> admit_all(std::vector<Fd> listeners, const HostEntry& own,
                          const std::vector<Visit>& visits, const JobSecret& secret,
                          const Deadline& deadline) {
  Admission admission(std::move(listeners), secret_of_door(secret, own));
  Sockets arrived(visits.size());
  const auto missing = [](const Connection& socket) { return !socket; };
  while (std::any_of(arrived.begin(), arrived.end(), missing)) {
    HVD_TRY(auto guest, admission.next(deadline));
    if (!guest) {
      return fail(HVD_ERROR_TIMEOUT, "there was no connection from " +
                                         describe_missing(visits, arrived) + " to " +
                                         describe(own.addresses) + kAdvice);
    }
    for (std::size_t i = 0; i < visits.size(); ++i) {
      if (visits[i].number == guest->rank && guest->connection.socket)
        arrived[i] = std::move(guest->connection.socket);
    }
  }
  return arrived;
}

}  // namespace

Result<HostDoor> HostDoor::open(const std::string& interface, const std::optional<Address>& known) {
  HVD_TRY(const auto addresses, reachable_addresses(interface, known));
  HostDoor door;
  Error last = fail(HVD_ERROR_SYSTEM, "this host has no network address");
  for (const Address& address : addresses) {
    auto listener = listen_on(address);
    if (listener.ok()) {
      door.listeners_.push_back(std::move(*listener));
    } else {
      last = listener.error();
    }
  }
  if (door.listeners_.empty()) {
    return with_context("no connection from other hosts is possible",
                        fail(last.status, last.message + kAdvice));
  }
  return door;
}

std::vector<Address> HostDoor::addresses() const {
  std::vector<Address> addresses;
  for (const Fd& listener : listeners_) {
    if (const auto address = local_address(listener)) addresses.push_back(*address);
  }
  return addresses;
}

// Admits and seeks admission at the same time, so that no rank waits for another's turn.
Result<std::vector<Connection>> make_visits(HostDoor door, const HostEntry& own,
                                            const std::vector<Visit>& out,
                                            const std::vector<Visit>& in, const JobSecret& secret,
                                            std::chrono::milliseconds patience) {
  const Deadline deadline(patience);
  Result<Sockets> admitted = Sockets();
  std::thread doorkeeper;
  try {
    const SignalsBlocked blocked;
    doorkeeper = std::thread(
        [&] { admitted = admit_all(std::move(door.listeners_), own, in, secret, deadline); });
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

Result<std::vector<HostSocket>> join_hosts(HostDoor door, const std::vector<HostEntry>& hosts,
                                           int own, const JobSecret& secret,
                                           std::chrono::milliseconds patience) {
  const HostEntry& here = hosts[static_cast<std::size_t>(own)];
  std::vector<Visit> earlier;
  std::vector<Visit> later;
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    if (host < static_cast<std::size_t>(own)) earlier.push_back({hosts[host], here.leader});
    if (host > static_cast<std::size_t>(own)) later.push_back({hosts[host], hosts[host].leader});
  }
  HVD_TRY(auto connections, make_visits(std::move(door), here, earlier, later, secret, patience));
  std::vector<HostSocket> sockets;
  for (std::size_t i = 0; i < connections.size(); ++i) {
    const int host = static_cast<int>(i) + (i < static_cast<std::size_t>(own) ? 0 : 1);
    sockets.push_back({host, std::move(connections[i])});
  }
  return sockets;
}

}  // namespace libhvd
