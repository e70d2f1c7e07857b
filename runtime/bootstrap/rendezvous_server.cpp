// Rank 0's side of the rendezvous.
#include "bootstrap/authenticated_acceptor.hpp"
#include "bootstrap/bootstrap.hpp"
#include "bootstrap/reachable_addresses.hpp"
#include "bootstrap/rendezvous.hpp"
#include "bootstrap/rendezvous_frame.hpp"
#include "common/descriptor_limit.hpp"
#include "common/fd.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include <poll.h>

namespace libhvd {
namespace {

// How long to try to send an error to the other ranks before this one gives up.
constexpr std::chrono::milliseconds kLastWords{1000};

// Returns whether the name is "localhost" or a loopback address, so that all ranks are on this
// host.
bool means_loopback(const std::string& name) {
  return name == "localhost" || name == "::1" || name.starts_with("127.");
}

// Listens on one port of all addresses. Skips addresses that are not this host's, because ranks
// find the others. Error: no address is left; or another program listens on this port of one of
// them
// (`taken`), so that ranks would reach that program.
Result<std::vector<Fd>> listen_on_port(const std::vector<Address>& addresses, std::uint16_t port,
                                       bool& taken) {
  std::vector<Fd> listeners;
  Error last = fail(HVD_ERROR_SYSTEM, "there is no address");
  for (const Address& address : addresses) {
    auto listener = listen_on(address.with_port(port), taken);
    if (listener.ok()) {
      listeners.push_back(std::move(*listener));
    } else {
      last = listener.error();
    }
    if (taken) return last;
  }
  if (listeners.empty()) return last;
  return listeners;
}

// Listens on every interface. The first of these addresses also takes IPv4.
Result<std::vector<Fd>> listen_on_any(std::uint16_t port) {
  Result<std::vector<Fd>> listeners = std::vector<Fd>();
  bool taken = false;
  for (const Address& address : any_address()) {
    listeners = listen_on_port({address}, port, taken);
    if (listeners.ok() || taken) break;
  }
  return listeners;
}

std::vector<Address> without_repeats(const std::vector<Address>& addresses) {
  std::vector<Address> once;
  for (const Address& address : addresses) {
    const bool repeated = std::any_of(
        once.begin(), once.end(), [&](const Address& other) { return same_host(address, other); });
    if (!repeated) once.push_back(address);
  }
  return once;
}

class RendezvousServer final : public Rendezvous {
 public:
  explicit RendezvousServer(const RendezvousSpec& spec)
      : spec_(spec), clients_(static_cast<std::size_t>(spec.secret.size)) {}

  // Waits for all clients.
  Result<void> accept_clients();
  Result<std::vector<std::string>> exchange(const std::string& own) override;
  std::optional<Address> own_address() const override;

 private:
  Result<std::vector<Fd>> listen() const;
  std::vector<int> missing() const;
  std::optional<Error> other_encryption_of() const;
  std::string own_name() const { return name_of(0); }
  std::string name_of(int rank) const {
    return "rank " + std::to_string(number_among(spec_.chosen, rank));
  }
  std::string describe(std::vector<int> ranks) const;
  Result<std::vector<std::string>> collect(const std::string& own, const Deadline& deadline);
  // The first byte of a payload is '+' before the blobs, or '-' before the text of an error.
  void send_to_all(const Payload& payload, const Deadline& deadline);
  void send_error_to_all(const Error& error, const Deadline& deadline) {
    send_to_all(Payload('-' + error.message), deadline);
  }

  RendezvousSpec spec_;
  struct Client {
    Connection socket;
    FrameKey to = {};
    FrameKey from = {};
    bool other_encryption = false;  // then it knows, and is gone
  };
  std::vector<Client> clients_;  // by rank; the first is empty
};

// Listens on the addresses that MASTER_ADDR and HVD_INTERFACE name and this host has. If other
// hosts cannot reach these, listens on all addresses, but only with a secret.
Result<std::vector<Fd>> RendezvousServer::listen() const {
  const bool secret = !spec_.secret.key.empty();
  HVD_TRY(const auto named, resolve(spec_.address));
  HVD_TRY(auto addresses, addresses_named(spec_.interface));
  const auto loopback = [](const Address& address) { return address.is_loopback(); };
  const bool reached = !addresses.empty() || means_loopback(spec_.address) ||
                       std::none_of(named.begin(), named.end(), loopback);
  addresses.insert(addresses.end(), named.begin(), named.end());
  addresses = without_repeats(addresses);
  std::string last;
  for (const std::uint16_t port : spec_.ports) {
    bool taken = false;
    auto listeners = listen_on_port(addresses, port, taken);
    if (secret && !taken && !(listeners.ok() && reached)) {
      listeners = std::vector<Fd>();  // closes them
      listeners = listen_on_any(port);
    }
    if (listeners.ok()) {
      if (!secret) {
        std::fprintf(stderr,
                     "hvd: HVD_JOB_KEY is not set: %s trusts whoever reaches %s port %d and "
                     "knows the job's id\n",
                     own_name().c_str(), spec_.address.c_str(), port);
      }
      return listeners;
    }
    last = listeners.error().message;
  }
  return fail(HVD_ERROR_SYSTEM, own_name() + " finds no port to listen on, tried " +
                                    std::to_string(spec_.ports.front()) + " to " +
                                    std::to_string(spec_.ports.back()) + ": " + last);
}

std::vector<int> RendezvousServer::missing() const {
  std::vector<int> ranks;
  for (std::size_t rank = 1; rank < clients_.size(); ++rank) {
    if (!clients_[rank].socket && !clients_[rank].other_encryption)
      ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

// Returns the error for clients whose HVD_DATA_TLS differs; nullopt if there are none. Clients that
// have connected get it in the first exchange.
std::optional<Error> RendezvousServer::other_encryption_of() const {
  std::vector<int> others;
  for (std::size_t rank = 1; rank < clients_.size(); ++rank) {
    if (clients_[rank].other_encryption) others.push_back(static_cast<int>(rank));
  }
  if (others.empty()) return std::nullopt;
  return spec_.secret.encrypted ? other_encryption(own_name(), describe(others))
                                : other_encryption(describe(others), own_name());
}

std::string RendezvousServer::describe(std::vector<int> ranks) const {
  for (int& rank : ranks) rank = number_among(spec_.chosen, rank);
  return describe_ranks(ranks);
}

Result<void> RendezvousServer::accept_clients() {
  make_room_for_descriptors(clients_.size() + Acceptor::kMostPending);
  HVD_TRY(auto listeners, listen());
  AuthenticatedAcceptor acceptor(std::move(listeners), spec_.secret);
  const Deadline deadline(spec_.timeout, spec_.cancel);
  const Deadline soon = deadline.at_most(spec_.note_after);
  bool noted = !spec_.secret.key.empty();  // hvdrun says what it waits for
  while (!missing().empty()) {
    HVD_TRY(auto client, acceptor.next(noted ? deadline : soon));
    if (!client && other_encryption_of()) return {};
    if (!client && !deadline.over() && !std::exchange(noted, true)) {
      note_wait(own_name(), describe(missing()), spec_);
      continue;
    }
    if (!client) {
      const Error late =
          deadline.cancelled()
              ? start_cancelled()
              : fail(HVD_ERROR_TIMEOUT,
                     describe(missing()) + " did not come to " + own_name() + " within " +
                         std::to_string(spec_.timeout.count() / 1000) + " s (HVD_START_TIMEOUT)");
      send_error_to_all(late, Deadline(kLastWords));
      return late;
    }
    auto& [socket, keys] = client->connection;
    clients_[static_cast<std::size_t>(client->rank)] = {std::move(socket), FrameKey(keys.to_client),
                                                        FrameKey(keys.to_server),
                                                        client->other_encryption};
  }
  return {};
}

// Prefers an address that a rank on another host has reached.
std::optional<Address> RendezvousServer::own_address() const {
  std::optional<Address> any;
  for (const Client& client : clients_) {
    if (!client.socket) continue;
    any = local_address(client.socket.get());
    if (any && !any->is_loopback()) break;
  }
  return any;
}

Result<std::vector<std::string>> RendezvousServer::exchange(const std::string& own) {
  const Deadline deadline(spec_.timeout, spec_.cancel);
  auto blobs = collect(own, deadline);
  if (const auto differ = other_encryption_of()) blobs = *differ;
  if (blobs.ok()) {
    send_to_all(Payload('+' + join_blobs(*blobs)), deadline);
  } else {
    send_error_to_all(blobs.error(), deadline);
  }
  return blobs;
}

// Ignores a client that is gone, because the next exchange reports it.
void RendezvousServer::send_to_all(const Payload& payload, const Deadline& deadline) {
  for (Client& client : clients_) {
    if (client.socket) (void)send_frame(client.socket, client.to, payload, deadline).ok();
  }
}

// Waits for the blobs of all clients.
Result<std::vector<std::string>> RendezvousServer::collect(const std::string& own,
                                                           const Deadline& deadline) {
  std::vector<std::string> blobs(clients_.size());
  blobs[0] = own;
  std::vector<FrameReader> readers(clients_.size(), FrameReader(kMostBlobBytes));
  std::vector<int> open = {};
  for (std::size_t rank = 1; rank < clients_.size(); ++rank) {
    if (clients_[rank].socket) open.push_back(static_cast<int>(rank));
  }
  // The first round reads from all clients: over TLS, data may have arrived with an earlier read,
  // and poll(2) does not report it.
  for (bool first = true; !open.empty(); first = false) {
    if (deadline.cancelled()) return start_cancelled();
    if (deadline.over()) {
      return fail(HVD_ERROR_TIMEOUT,
                  describe(open) + " sent nothing to " + own_name() + " in time");
    }
    std::vector<pollfd> entries;
    for (const int rank : open) {
      entries.push_back({clients_[static_cast<std::size_t>(rank)].socket.get(), POLLIN, 0});
    }
    const Deadline look = first ? Deadline({}) : deadline;
    if (poll_until(entries, look) < 0 && errno != EINTR) {
      return fail_errno(own_name() + " cannot wait for the others", errno);
    }
    for (std::size_t i = entries.size(); i-- > 0;) {
      if (entries[i].revents == 0 && !first) continue;
      const auto rank = static_cast<std::size_t>(open[i]);
      const auto complete = readers[rank].feed(clients_[rank].socket, clients_[rank].from);
      if (!complete.ok()) {
        return with_context(name_of(static_cast<int>(rank)) + " is gone", complete.error());
      }
      if (!*complete) continue;
      blobs[rank] = readers[rank].take();
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return blobs;
}

}  // namespace

void note_wait(const std::string& rank, const std::string& others, const RendezvousSpec& spec) {
  std::fprintf(stderr,
               "hvd: %s waits for %s at %s port %d, for %lld s at most (HVD_START_TIMEOUT); start "
               "each with its own RANK and the same WORLD_SIZE, MASTER_ADDR and MASTER_PORT\n",
               rank.c_str(), others.c_str(), spec.address.c_str(), spec.ports.front(),
               static_cast<long long>(spec.timeout.count() / 1000));
}

Result<std::unique_ptr<Rendezvous>> serve_rendezvous(const RendezvousSpec& spec) {
  auto server = std::make_unique<RendezvousServer>(spec);
  HVD_CHECK(server->accept_clients());
  return std::unique_ptr<Rendezvous>(std::move(server));
}

}  // namespace libhvd
