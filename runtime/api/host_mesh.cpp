#include "api/host_mesh.hpp"

#include "base/signals_blocked.hpp"
#include "bootstrap/admission.hpp"
#include "bootstrap/interfaces.hpp"

#include <algorithm>
#include <thread>

#include <poll.h>

namespace libhvd {
namespace {

using Sockets = std::vector<HostSocket>;

constexpr std::chrono::milliseconds kAttemptPatience{5000};
constexpr std::chrono::milliseconds kPause{100};

constexpr const char* kAdvice = ". HVD_INTERFACE chooses the network between hosts";

std::string describe(const HostEntry& host) {
  return "rank " + std::to_string(host.leader) + " on " + host.name;
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

Result<Fd> reach_host(const HostEntry& own, const HostEntry& host, const JobSecret& secret,
                      const Deadline& deadline) {
  std::vector<Address> addresses = host.addresses;
  sort_by_nearness(addresses);
  std::string refusal;
  std::string reason;
  while (true) {
    for (const Address& address : addresses) {
      auto socket = seek_admission(address, secret_of_door(secret, host), own.leader,
                                   deadline.at_most(kAttemptPatience), refusal);
      if (socket.ok()) return socket;
      reason = refusal.empty() ? address.text() + ": " + socket.error().message : refusal;
    }
    if (deadline.over()) break;
    // Nothing tells when a host can be reached again.
    ::poll(nullptr, 0, deadline.at_most(kPause).poll_ms());
  }
  return fail(HVD_ERROR_TIMEOUT, "cannot reach " + describe(host) + " at " +
                                     describe(host.addresses) + " (" + reason + ")" + kAdvice);
}

Result<Sockets> reach_earlier(const std::vector<HostEntry>& hosts, std::size_t own,
                              const JobSecret& secret, const Deadline& deadline) {
  Sockets sockets;
  for (std::size_t host = 0; host < own; ++host) {
    HVD_TRY(Fd socket, reach_host(hosts[own], hosts[host], secret, deadline));
    sockets.push_back({static_cast<int>(host), std::move(socket)});
  }
  return sockets;
}

Result<Sockets> admit_later(std::vector<Fd> listeners, const std::vector<HostEntry>& hosts,
                            std::size_t own, const JobSecret& secret, const Deadline& deadline) {
  Admission admission(std::move(listeners), secret_of_door(secret, hosts[own]));
  std::vector<Fd> arrived(hosts.size());
  const auto missing = [&] {
    std::string names;
    for (std::size_t host = own + 1; host < hosts.size(); ++host) {
      if (!arrived[host]) names += (names.empty() ? "" : ", ") + describe(hosts[host]);
    }
    return names;
  };
  while (!missing().empty()) {
    HVD_TRY(auto guest, admission.next(deadline));
    if (!guest) {
      return fail(HVD_ERROR_TIMEOUT, "there was no connection from " + missing() + " to " +
                                         describe(hosts[own].addresses) + kAdvice);
    }
    const auto host = std::find_if(hosts.begin(), hosts.end(), [&](const HostEntry& entry) {
      return entry.leader == guest->rank;
    });
    const auto index = static_cast<std::size_t>(host - hosts.begin());
    if (index > own && index < hosts.size()) arrived[index] = std::move(guest->socket);
  }
  Sockets sockets;
  for (std::size_t host = own + 1; host < hosts.size(); ++host) {
    sockets.push_back({static_cast<int>(host), std::move(arrived[host])});
  }
  return sockets;
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

// Admits and seeks admission at the same time, so that no host waits for another's turn.
Result<std::vector<HostSocket>> join_hosts(HostDoor door, const std::vector<HostEntry>& hosts,
                                           int own, const JobSecret& secret,
                                           std::chrono::milliseconds patience) {
  const Deadline deadline(patience);
  const auto index = static_cast<std::size_t>(own);
  Result<Sockets> later = Sockets();
  std::thread doorkeeper;
  {
    const SignalsBlocked blocked;
    doorkeeper = std::thread(
        [&] { later = admit_later(std::move(door.listeners_), hosts, index, secret, deadline); });
  }
  auto earlier = reach_earlier(hosts, index, secret, deadline);
  doorkeeper.join();
  if (!earlier.ok()) return earlier;
  if (!later.ok()) return later;
  for (HostSocket& socket : *later) earlier->push_back(std::move(socket));
  return earlier;
}

}  // namespace libhvd
