// The side of the rendezvous of the ranks other than 0.
#include "bootstrap/authenticated_acceptor.hpp"
#include "bootstrap/bootstrap.hpp"
#include "bootstrap/frame.hpp"
#include "bootstrap/rendezvous.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include <poll.h>

namespace libhvd {
namespace {

// The limit of one attempt: long enough for a busy rank 0, and short enough to get past another
// program's server that sends nothing.
constexpr std::chrono::milliseconds kAttemptTimeout{3000};
constexpr std::chrono::milliseconds kFirstPause{5};
constexpr std::chrono::milliseconds kLongestPause{200};

class RendezvousClient final : public Rendezvous {
 public:
  explicit RendezvousClient(const RendezvousSpec& spec) : spec_(spec) {}

  // Tries the ports until one is rank 0's.
  Result<void> find_server();
  Result<std::vector<std::string>> exchange(const std::string& own) override;
  std::optional<Address> own_address() const override {
    return local_address(server_.socket.socket());
  }

 private:
  std::string server_name() const {
    return "rank " + std::to_string(number_among(spec_.chosen, 0));
  }
  Error not_found() const;
  Error refuse_encryption() const;
  // Tries each port once. Returns whether one was rank 0's.
  Result<bool> try_ports(const std::vector<Address>& addresses, const Deadline& deadline);

  RendezvousSpec spec_;
  AuthenticatedConnection server_;
  FrameKey to_server_;
  FrameKey from_server_;
  std::string refusal_;  // the last reason that a server gave
};

Result<void> RendezvousClient::find_server() {
  const Deadline deadline(spec_.timeout);
  HVD_TRY(const auto addresses, resolve(spec_.address));
  auto pause = kFirstPause;
  while (true) {
    HVD_TRY(const bool found, try_ports(addresses, deadline));
    if (found) return {};
    if (deadline.over()) return not_found();
    // There is no event for a port of another host that becomes open, so this tries again.
    ::poll(nullptr, 0, deadline.at_most(pause).poll_ms());
    pause = std::min(2 * pause, kLongestPause);
  }
}

Error RendezvousClient::not_found() const {
  std::string text = "rank " + std::to_string(number_among(spec_.chosen, spec_.rank)) +
                     " did not find " + server_name() + " at " + spec_.address + " port " +
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
  return spec_.secret.encrypted ? other_encryption(own, server_name())
                                : other_encryption(server_name(), own);
}

Result<bool> RendezvousClient::try_ports(const std::vector<Address>& addresses,
                                         const Deadline& deadline) {
  for (const std::uint16_t port : spec_.ports) {
    for (const Address& address : addresses) {
      if (deadline.over()) return false;
      auto server = connect_authenticated(address.with_port(port), spec_.secret, spec_.rank,
                                          deadline.at_most(kAttemptTimeout), refusal_);
      if (!server.ok() && server.error().status == HVD_ERROR_MISMATCH) return refuse_encryption();
      if (!server.ok()) continue;
      server_ = std::move(*server);
      to_server_ = FrameKey(server_.keys.to_server);
      from_server_ = FrameKey(server_.keys.to_client);
      return true;
    }
  }
  return false;
}

Result<std::vector<std::string>> RendezvousClient::exchange(const std::string& own) {
  const Deadline deadline(spec_.timeout);
  const auto context = [this](Error error) {
    return with_context(server_name(), std::move(error));
  };
  if (auto sent = send_frame(server_.socket, to_server_, Payload(own), deadline); !sent.ok())
    return context(sent.error());
  const std::size_t most = static_cast<std::size_t>(spec_.secret.size) * (kMostBlobBytes + 4) + 1;
  auto reply = receive_frame(server_.socket, from_server_, most, deadline);
  if (!reply.ok()) return context(reply.error());
  if (reply->empty() || reply->front() != '+') {
    return fail(HVD_ERROR_PEER,
                reply->empty() ? server_name() + " has sent nothing" : reply->substr(1));
  }
  HVD_TRY(auto blobs, split_blobs(reply->substr(1)));
  if (blobs.size() != static_cast<std::size_t>(spec_.secret.size)) {
    return fail(HVD_ERROR_PEER,
                server_name() + " has sent " + std::to_string(blobs.size()) + " parts");
  }
  return blobs;
}

}  // namespace

Result<std::unique_ptr<Rendezvous>> join_rendezvous(const RendezvousSpec& spec) {
  auto client = std::make_unique<RendezvousClient>(spec);
  HVD_CHECK(client->find_server());
  return std::unique_ptr<Rendezvous>(std::move(client));
}

}  // namespace libhvd
