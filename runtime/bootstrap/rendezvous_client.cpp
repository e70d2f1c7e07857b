// The side of the rendezvous of the ranks other than 0.
#include "bootstrap/authenticated_acceptor.hpp"
#include "bootstrap/bootstrap.hpp"
#include "bootstrap/port_search.hpp"
#include "bootstrap/rendezvous.hpp"
#include "bootstrap/rendezvous_frame.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

namespace libhvd {
namespace {

// For rank 0's answer to come, after it has made it.
constexpr std::chrono::milliseconds kAnswerTime{2000};

class RendezvousClient final : public Rendezvous {
 public:
  explicit RendezvousClient(const RendezvousSpec& spec) : spec_(spec) {}

  // Tries the ports until one is rank 0's.
  Result<void> find_server();
  Result<std::vector<std::string>> exchange(const std::string& own) override;
  std::optional<Address> own_address() const override {
    return local_address(server_.socket.get());
  }

 private:
  std::string server_name() const {
    return "rank " + std::to_string(number_among(spec_.chosen, 0));
  }
  Error not_found() const;
  Error refuse_encryption() const;

  RendezvousSpec spec_;
  AuthenticatedConnection server_;
  FrameKey to_server_;
  FrameKey from_server_;
  std::string refusal_;  // the last reason that a server gave
};

Result<void> RendezvousClient::find_server() {
  const Deadline deadline(spec_.timeout, spec_.cancel);
  HVD_TRY(const auto addresses, resolve(spec_.address));
  PortSearch search(addresses, spec_.ports, spec_.secret, spec_.rank);
  const bool notes = spec_.secret.key.empty();  // otherwise hvdrun says what it waits for
  auto found = search.run(notes ? deadline.at_most(spec_.note_after) : deadline);
  if (notes && found.ok() && !*found && !deadline.over()) {
    note_wait("rank " + std::to_string(number_among(spec_.chosen, spec_.rank)), server_name(),
              spec_);
    found = search.run(deadline);
  }
  refusal_ = search.refusal();
  if (!found.ok() && found.error().status == HVD_ERROR_MISMATCH) return refuse_encryption();
  if (!found.ok()) return found.error();
  if (!*found) return not_found();
  server_ = std::move(**found);
  to_server_ = FrameKey(server_.keys.to_server);
  from_server_ = FrameKey(server_.keys.to_client);
  return {};
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

// Rank 0 waits for all ranks to come, and then for what they send. If one is late, it sends the
// reason. So this waits longer than rank 0 does; otherwise it would report that rank 0 is late.
Result<std::vector<std::string>> RendezvousClient::exchange(const std::string& own) {
  const Deadline deadline(2 * spec_.timeout + kAnswerTime, spec_.cancel);
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
