// The other ranks' side of the rendezvous.
#include "bootstrap/admission.hpp"
#include "bootstrap/bootstrap.hpp"
#include "bootstrap/frame.hpp"
#include "bootstrap/job_key.hpp"
#include "bootstrap/rendezvous.hpp"

#include <poll.h>

namespace libhvd {
namespace {

// What one attempt may take: long enough for a busy rank 0, short enough to get past a foreign
// service that says nothing.
constexpr std::chrono::milliseconds kAttemptPatience{3000};
constexpr std::chrono::milliseconds kFirstPause{5};
constexpr std::chrono::milliseconds kLongestPause{200};

class Guest final : public Rendezvous {
 public:
  explicit Guest(const RendezvousSpec& spec) : spec_(spec) {}

  // Goes over the ports until one is rank 0's.
  Outcome find_host();
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

Outcome Guest::find_host() {
  const Deadline deadline(spec_.patience);
  HVD_TRY(const auto addresses, resolve(spec_.address));
  auto pause = kFirstPause;
  while (true) {
    HVD_TRY(const bool found, try_ports(addresses, deadline));
    if (found) return Done{};
    if (deadline.over()) return not_found();
    // Nothing tells when a port on another host is listened on: ask again.
    ::poll(nullptr, 0, deadline.at_most(pause).poll_ms());
    pause = std::min(2 * pause, kLongestPause);
  }
}

Error Guest::not_found() const {
  std::string text = "rank " + std::to_string(number_among(spec_.chosen, spec_.rank)) +
                     " did not find " + host_name() + " at " + spec_.address + " port " +
                     std::to_string(spec_.ports.front());
  if (spec_.ports.size() > 1) text += " to " + std::to_string(spec_.ports.back());
  text += " within " + std::to_string(spec_.patience.count() / 1000) + " s (HVD_START_TIMEOUT)";
  if (!refusal_.empty()) text += ". One that answered there: " + refusal_;
  if (number_among(spec_.chosen, 0) != 0)
    text += ". The first of the ranks that start must be on the host that MASTER_ADDR names";
  return fail(HVD_ERROR_TIMEOUT, text);
}

Error Guest::refuse_encryption() const {
  const std::string own = "rank " + std::to_string(number_among(spec_.chosen, spec_.rank));
  return spec_.secret.encrypted ? other_encryption(own, host_name())
                                : other_encryption(host_name(), own);
}

Result<bool> Guest::try_ports(const std::vector<Address>& addresses, const Deadline& deadline) {
  for (const std::uint16_t port : spec_.ports) {
    for (const Address& address : addresses) {
      if (deadline.over()) return false;
      auto host = seek_admission(address.with_port(port), spec_.secret, spec_.rank,
                                 deadline.at_most(kAttemptPatience), refusal_);
      if (!host.ok() && host.error().status == HVD_ERROR_MISMATCH) return refuse_encryption();
      if (!host.ok()) continue;
      host_ = std::move(*host);
      to_host_ = FrameKey(host_.keys.to_host);
      from_host_ = FrameKey(host_.keys.to_guest);
      return true;
    }
  }
  return false;
}

Result<std::vector<std::string>> Guest::exchange(const std::string& own) {
  const Deadline deadline(spec_.patience);
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

Result<std::unique_ptr<Rendezvous>> join_rendezvous(const RendezvousSpec& spec) {
  auto guest = std::make_unique<Guest>(spec);
  HVD_CHECK(guest->find_host());
  return std::unique_ptr<Rendezvous>(std::move(guest));
}

}  // namespace libhvd
