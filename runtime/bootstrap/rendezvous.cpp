// Rank 0's side of the rendezvous.
#include "bootstrap/rendezvous.hpp"

#include "bootstrap/authenticated_acceptor.hpp"
#include "bootstrap/bootstrap.hpp"
#include "bootstrap/frame.hpp"
#include "bootstrap/reachable_addresses.hpp"
#include "common/fd.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>

#include <poll.h>

namespace libhvd {
namespace {

// Where the name is "localhost" or a loopback address, all ranks are on this host.
bool means_loopback(const std::string& name) {
  return name == "localhost" || name == "::1" || name.starts_with("127.");
}

// One port on all of them. An address that is not this host's is passed over; ranks that come find
// the others. Where somebody else listens on one of them the port is of no use: ranks would find
// them there.
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

// The first of these takes IPv4 too.
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

class Host final : public Rendezvous {
 public:
  explicit Host(const RendezvousSpec& spec)
      : spec_(spec), clients_(static_cast<std::size_t>(spec.secret.size)) {}

  Result<void> gather_guests();
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
  void send_to_all(const Payload& payload, const Deadline& deadline);

  RendezvousSpec spec_;
  struct RendezvousClient {
    Connection socket;
    FrameKey to = {};
    FrameKey from = {};
    bool other_encryption = false;  // then it has been told, and is gone
  };
  std::vector<RendezvousClient> clients_;  // by rank; the first is empty
};

// On the addresses that MASTER_ADDR and HVD_INTERFACE name, as far as they are this host's. Only
// when nobody else can come there, and only with a secret, on all.
Result<std::vector<Fd>> Host::listen() const {
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

std::vector<int> Host::missing() const {
  std::vector<int> ranks;
  for (std::size_t rank = 1; rank < clients_.size(); ++rank) {
    if (!clients_[rank].socket && !clients_[rank].other_encryption)
      ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

// Those that have met hear of it in the first exchange.
std::optional<Error> Host::other_encryption_of() const {
  std::vector<int> others;
  for (std::size_t rank = 1; rank < clients_.size(); ++rank) {
    if (clients_[rank].other_encryption) others.push_back(static_cast<int>(rank));
  }
  if (others.empty()) return std::nullopt;
  return spec_.secret.encrypted ? other_encryption(own_name(), describe(others))
                                : other_encryption(describe(others), own_name());
}

std::string Host::describe(std::vector<int> ranks) const {
  for (int& rank : ranks) rank = number_among(spec_.chosen, rank);
  return describe_ranks(ranks);
}

Result<void> Host::gather_guests() {
  make_room_for_descriptors(clients_.size() + AuthenticatedAcceptor::kMostStrangers);
  HVD_TRY(auto listeners, listen());
  AuthenticatedAcceptor acceptor(std::move(listeners), spec_.secret);
  const Deadline deadline(spec_.timeout);
  while (!missing().empty()) {
    HVD_TRY(auto client, acceptor.next(deadline));
    if (!client && other_encryption_of()) return {};
    if (!client) {
      return fail(HVD_ERROR_TIMEOUT, describe(missing()) + " did not come to " + own_name() +
                                         " within " + std::to_string(spec_.timeout.count() / 1000) +
                                         " s (HVD_START_TIMEOUT)");
    }
    auto& [socket, keys] = client->connection;
    clients_[static_cast<std::size_t>(client->rank)] = {std::move(socket), FrameKey(keys.to_client),
                                                        FrameKey(keys.to_server),
                                                        client->other_encryption};
  }
  return {};
}

// The one that ranks on other hosts have reached.
std::optional<Address> Host::own_address() const {
  std::optional<Address> any;
  for (const RendezvousClient& client : clients_) {
    if (!client.socket) continue;
    any = local_address(client.socket.socket());
    if (any && !any->is_loopback()) break;
  }
  return any;
}

Result<std::vector<std::string>> Host::exchange(const std::string& own) {
  const Deadline deadline(spec_.timeout);
  auto blobs = collect(own, deadline);
  if (const auto differ = other_encryption_of()) blobs = *differ;
  // The first byte says whether it went well; else the text follows.
  if (blobs.ok()) {
    send_to_all(Payload('+' + join_blobs(*blobs)), deadline);
  } else {
    send_to_all(Payload('-' + blobs.error().message), deadline);
  }
  return blobs;
}

// A client that is gone will be missed by the next exchange.
void Host::send_to_all(const Payload& payload, const Deadline& deadline) {
  for (RendezvousClient& client : clients_) {
    if (client.socket) (void)send_frame(client.socket, client.to, payload, deadline).ok();
  }
}

Result<std::vector<std::string>> Host::collect(const std::string& own, const Deadline& deadline) {
  std::vector<std::string> blobs(clients_.size());
  blobs[0] = own;
  std::vector<FrameReader> readers(clients_.size(), FrameReader(kMostBlobBytes));
  std::vector<int> open = {};
  for (std::size_t rank = 1; rank < clients_.size(); ++rank) {
    if (clients_[rank].socket) open.push_back(static_cast<int>(rank));
  }
  // Over TLS more may have come with what was read before, which poll(2) does not tell.
  for (bool first = true; !open.empty(); first = false) {
    if (deadline.over()) {
      return fail(HVD_ERROR_TIMEOUT,
                  describe(open) + " sent nothing to " + own_name() + " in time");
    }
    std::vector<pollfd> entries;
    for (const int rank : open) {
      entries.push_back({clients_[static_cast<std::size_t>(rank)].socket.get(), POLLIN, 0});
    }
    const int patience_ms = first ? 0 : deadline.poll_ms();
    if (::poll(entries.data(), entries.size(), patience_ms) < 0 && errno != EINTR) {
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

// What one attempt may take: long enough for a busy rank 0, short enough to get past a foreign
// service that says nothing.
constexpr std::chrono::milliseconds kPortPatience{3000};
constexpr std::chrono::milliseconds kFirstPause{5};
constexpr std::chrono::milliseconds kLongestPause{200};

class RendezvousClient final : public Rendezvous {
 public:
  explicit RendezvousClient(const RendezvousSpec& spec) : spec_(spec) {}

  // Goes over the ports until one is rank 0's.
  Result<void> find_host();
  Result<std::vector<std::string>> exchange(const std::string& own) override;
  std::optional<Address> own_address() const override {
    return local_address(host_.socket.socket());
  }

 private:
  std::string host_name() const { return "rank " + std::to_string(number_among(spec_.chosen, 0)); }
  Error not_found() const;
  Error refuse_encryption() const;
  Result<bool> try_ports(const std::vector<Address>& addresses, const Deadline& deadline);

  RendezvousSpec spec_;
  Proven host_;
  FrameKey to_host_;
  FrameKey from_host_;
  std::string refusal_;  // the most telling reason so far
};

Result<void> RendezvousClient::find_host() {
  const Deadline deadline(spec_.timeout);
  HVD_TRY(const auto addresses, resolve(spec_.address));
  auto pause = kFirstPause;
  while (true) {
    HVD_TRY(const bool found, try_ports(addresses, deadline));
    if (found) return {};
    if (deadline.over()) return not_found();
    // Nothing tells when a port on another host is listened on: ask again.
    ::poll(nullptr, 0, deadline.at_most(pause).poll_ms());
    pause = std::min(2 * pause, kLongestPause);
  }
}

Error RendezvousClient::not_found() const {
  std::string text = "rank " + std::to_string(number_among(spec_.chosen, spec_.rank)) +
                     " did not find " + host_name() + " at " + spec_.address + " port " +
                     std::to_string(spec_.ports.front());
  if (spec_.ports.size() > 1) text += " to " + std::to_string(spec_.ports.back());
  text += " within " + std::to_string(spec_.timeout.count() / 1000) + " s (HVD_START_TIMEOUT)";
  if (!refusal_.empty()) text += ". One that answered there: " + refusal_;
  if (number_among(spec_.chosen, 0) != 0)
    text += ". The first of the ranks that start must be on the host that MASTER_ADDR names";
  return fail(HVD_ERROR_TIMEOUT, text);
}

Error RendezvousClient::refuse_encryption() const {
  const std::string own = "rank " + std::to_string(number_among(spec_.chosen, spec_.rank));
  return spec_.secret.encrypted ? other_encryption(own, host_name())
                                : other_encryption(host_name(), own);
}

Result<bool> RendezvousClient::try_ports(const std::vector<Address>& addresses,
                                         const Deadline& deadline) {
  for (const std::uint16_t port : spec_.ports) {
    for (const Address& address : addresses) {
      if (deadline.over()) return false;
      auto host = connect_authenticated(address.with_port(port), spec_.secret, spec_.rank,
                                        deadline.at_most(kPortPatience), refusal_);
      if (!host.ok() && host.error().status == HVD_ERROR_MISMATCH) return refuse_encryption();
      if (!host.ok()) continue;
      host_ = std::move(*host);
      to_host_ = FrameKey(host_.keys.to_server);
      from_host_ = FrameKey(host_.keys.to_client);
      return true;
    }
  }
  return false;
}

Result<std::vector<std::string>> RendezvousClient::exchange(const std::string& own) {
  const Deadline deadline(spec_.timeout);
  const auto context = [this](Error error) { return with_context(host_name(), std::move(error)); };
  if (auto sent = send_frame(host_.socket, to_host_, Payload(own), deadline); !sent.ok())
    return context(sent.error());
  const std::size_t most = static_cast<std::size_t>(spec_.secret.size) * (kMostBlobBytes + 4) + 1;
  auto reply = receive_frame(host_.socket, from_host_, most, deadline);
  if (!reply.ok()) return context(reply.error());
  if (reply->empty() || reply->front() != '+') {
    return fail(HVD_ERROR_PEER,
                reply->empty() ? host_name() + " has sent nothing" : reply->substr(1));
  }
  HVD_TRY(auto blobs, split_blobs(reply->substr(1)));
  if (blobs.size() != static_cast<std::size_t>(spec_.secret.size)) {
    return fail(HVD_ERROR_PEER,
                host_name() + " has sent " + std::to_string(blobs.size()) + " parts");
  }
  return blobs;
}

}  // namespace

Result<std::unique_ptr<Rendezvous>> serve_rendezvous(const RendezvousSpec& spec) {
  auto host = std::make_unique<Host>(spec);
  HVD_CHECK(host->gather_guests());
  return std::unique_ptr<Rendezvous>(std::move(host));
}

// The other ranks' side of the rendezvous.

Result<std::unique_ptr<Rendezvous>> join_rendezvous(const RendezvousSpec& spec) {
  auto client = std::make_unique<RendezvousClient>(spec);
  HVD_CHECK(client->find_host());
  return std::unique_ptr<Rendezvous>(std::move(client));
}

}  // namespace libhvd
