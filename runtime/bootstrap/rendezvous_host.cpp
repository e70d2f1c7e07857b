// Rank 0's side of the rendezvous.
#include "base/random.hpp"
#include "base/text.hpp"
#include "bootstrap/bootstrap.hpp"
#include "bootstrap/frame.hpp"
#include "bootstrap/rendezvous.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <list>
#include <optional>

#include <poll.h>

namespace libhvd {
namespace {

// A stranger has this long for its handshake, and so many strangers may be at it at once: the
// oldest goes when one more comes.
constexpr std::chrono::milliseconds kHandshakePatience{5000};
constexpr std::size_t kMostStrangers = 256;

// One connection until it has proven itself.
class Stranger {
 public:
  Stranger(Fd socket, const HandshakeNonce& nonce)
      : socket_(std::move(socket)), nonce_(nonce), deadline_(kHandshakePatience) {}

  enum class State { waiting, welcome, refused };

  // Takes what has come and answers it.
  State advance(const JobSecret& secret) {
    const auto buffer =
        hello_read_ ? std::span<std::uint8_t>(proof_) : std::span<std::uint8_t>(hello_);
    const auto count = receive_some(socket_, buffer.subspan(have_));
    if (!count.ok()) return State::refused;
    have_ += *count;
    if (have_ < buffer.size()) return State::waiting;
    return hello_read_ ? check_proof(secret) : answer_hello(secret);
  }

  bool late() const { return deadline_.over(); }
  int socket() const { return socket_.get(); }
  int rank() const { return rank_; }
  Fd take_socket() { return std::move(socket_); }

 private:
  // Messages this short fit into a fresh connection's buffer; where they do not, we do not wait.
  bool answer(Bytes message) { return send_all(socket_, message, Deadline({})).ok(); }

  State answer_hello(const JobSecret& secret) {
    const auto hello = read_hello(hello_);
    if (!hello) return State::refused;
    const Verdict verdict = judge(*hello, secret);
    const bool sent = answer(make_challenge(secret, hello_, verdict, nonce_));
    if (!sent || verdict != Verdict::go_on) return State::refused;
    rank_ = hello->rank;
    hello_read_ = true;
    have_ = 0;
    return State::waiting;
  }

  State check_proof(const JobSecret& secret) {
    if (!proof_holds(secret, hello_, nonce_, proof_)) return State::refused;
    return answer(make_welcome()) ? State::welcome : State::refused;
  }

  Fd socket_;
  HandshakeNonce nonce_;
  Deadline deadline_;
  HelloBytes hello_{};
  Digest proof_{};
  bool hello_read_ = false;
  std::size_t have_ = 0;
  int rank_ = 0;
};

class Host final : public Rendezvous {
 public:
  explicit Host(const RendezvousSpec& spec)
      : spec_(spec), guests_(static_cast<std::size_t>(spec.secret.size)) {}

  Outcome gather_guests();
  Result<std::vector<std::string>> exchange(const std::string& own) override;

 private:
  Outcome listen();
  Outcome take_connection();
  void advance_strangers(const std::vector<pollfd>& entries);
  std::vector<int> missing() const;
  Result<std::vector<std::string>> collect(const std::string& own, const Deadline& deadline);
  void send_to_all(const std::string& payload, const Deadline& deadline);

  RendezvousSpec spec_;
  Fd listener_;
  std::list<Stranger> strangers_;
  std::vector<Fd> guests_;  // by rank; the first is empty
};

Outcome Host::listen() {
  const bool open_to_all = spec_.secret.key.empty();
  std::vector<Address> addresses = any_address();
  if (open_to_all) {
    HVD_TRY(addresses, resolve(spec_.address));
  }
  std::string last;
  for (const std::uint16_t port : spec_.ports) {
    for (const Address& address : addresses) {
      auto listener = listen_on(address.with_port(port));
      if (!listener.ok()) {
        last = listener.error().message;
        continue;
      }
      listener_ = std::move(*listener);
      if (open_to_all) {
        std::fprintf(stderr,
                     "hvd: HVD_JOB_KEY is not set: rank 0 trusts whoever reaches %s and knows the "
                     "job's id\n",
                     address.with_port(port).text().c_str());
      }
      return Done{};
    }
  }
  return fail(HVD_ERROR_SYSTEM, "rank 0 finds no port to listen on, tried " +
                                    std::to_string(spec_.ports.front()) + " to " +
                                    std::to_string(spec_.ports.back()) + ": " + last);
}

std::vector<int> Host::missing() const {
  std::vector<int> ranks;
  for (std::size_t rank = 1; rank < guests_.size(); ++rank) {
    if (!guests_[rank]) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

Outcome Host::gather_guests() {
  HVD_CHECK(listen());
  const Deadline deadline(spec_.patience);
  while (!missing().empty()) {
    if (deadline.over()) {
      return fail(HVD_ERROR_TIMEOUT, describe_ranks(missing()) + " did not come to rank 0 within " +
                                         std::to_string(spec_.patience.count() / 1000) +
                                         " s (HVD_START_TIMEOUT)");
    }
    std::vector<pollfd> entries{{listener_.get(), POLLIN, 0}};
    for (const Stranger& stranger : strangers_) entries.push_back({stranger.socket(), POLLIN, 0});
    const Deadline look = strangers_.empty() ? deadline : deadline.at_most(kHandshakePatience);
    if (::poll(entries.data(), entries.size(), look.poll_ms()) < 0 && errno != EINTR) {
      return fail_errno("rank 0 cannot wait for the others", errno);
    }
    advance_strangers(entries);
    if ((entries[0].revents & POLLIN) != 0) HVD_CHECK(take_connection());
  }
  listener_.reset();
  strangers_.clear();
  return Done{};
}

Outcome Host::take_connection() {
  while (Fd socket = accept_from(listener_)) {
    HVD_TRY(const HandshakeNonce nonce, random_bytes<sizeof(HandshakeNonce)>());
    if (strangers_.size() == kMostStrangers) strangers_.pop_front();
    strangers_.emplace_back(std::move(socket), nonce);
  }
  return Done{};
}

// `entries` holds the listener, then the strangers in order.
void Host::advance_strangers(const std::vector<pollfd>& entries) {
  auto entry = entries.begin() + 1;
  for (auto stranger = strangers_.begin(); stranger != strangers_.end(); ++entry) {
    auto state = Stranger::State::waiting;
    if (entry->revents != 0) state = stranger->advance(spec_.secret);
    if (state == Stranger::State::welcome) {
      guests_[static_cast<std::size_t>(stranger->rank())] = stranger->take_socket();
    }
    const bool done = state != Stranger::State::waiting || stranger->late();
    stranger = done ? strangers_.erase(stranger) : std::next(stranger);
  }
}

Result<std::vector<std::string>> Host::exchange(const std::string& own) {
  const Deadline deadline(spec_.patience);
  auto blobs = collect(own, deadline);
  // The first byte says whether it went well; else the text follows.
  if (blobs.ok()) {
    send_to_all('+' + join_blobs(*blobs), deadline);
  } else {
    send_to_all('-' + blobs.error().message, deadline);
  }
  return blobs;
}

// A guest that is gone will be missed by the next exchange.
void Host::send_to_all(const std::string& payload, const Deadline& deadline) {
  for (const Fd& guest : guests_) {
    if (guest) (void)send_frame(guest, payload, deadline).ok();
  }
}

Result<std::vector<std::string>> Host::collect(const std::string& own, const Deadline& deadline) {
  std::vector<std::string> blobs(guests_.size());
  blobs[0] = own;
  std::vector<FrameReader> readers(guests_.size(), FrameReader(kMostBlobBytes));
  std::vector<int> open = {};
  for (std::size_t rank = 1; rank < guests_.size(); ++rank) open.push_back(static_cast<int>(rank));
  while (!open.empty()) {
    if (deadline.over()) {
      return fail(HVD_ERROR_TIMEOUT, describe_ranks(open) + " sent nothing to rank 0 in time");
    }
    std::vector<pollfd> entries;
    for (const int rank : open) {
      entries.push_back({guests_[static_cast<std::size_t>(rank)].get(), POLLIN, 0});
    }
    if (::poll(entries.data(), entries.size(), deadline.poll_ms()) < 0 && errno != EINTR) {
      return fail_errno("rank 0 cannot wait for the others", errno);
    }
    for (std::size_t i = entries.size(); i-- > 0;) {
      if (entries[i].revents == 0) continue;
      const auto rank = static_cast<std::size_t>(open[i]);
      const auto complete = readers[rank].feed(guests_[rank]);
      if (!complete.ok()) {
        return with_context("rank " + std::to_string(rank) + " is gone", complete.error());
      }
      if (!*complete) continue;
      blobs[rank] = readers[rank].take();
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return blobs;
}

}  // namespace

Result<std::unique_ptr<Rendezvous>> host_rendezvous(const RendezvousSpec& spec) {
  auto host = std::make_unique<Host>(spec);
  HVD_CHECK(host->gather_guests());
  return std::unique_ptr<Rendezvous>(std::move(host));
}

}  // namespace libhvd
