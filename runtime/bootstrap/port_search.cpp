#include "bootstrap/port_search.hpp"

#include "base/process_environment.hpp"

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include <poll.h>

namespace libhvd {
namespace {

// The limit of one attempt: long enough for a busy rank 0.
constexpr std::chrono::milliseconds kAttemptTimeout{3000};
constexpr std::chrono::milliseconds kFirstPause{5};
constexpr std::chrono::milliseconds kLongestPause{200};
// An attempt whose answer is awaited delays the next one by this: rank 0 is usually at the first
// port, and 64 servers that send nothing then cost a second.
constexpr std::chrono::milliseconds kStagger{15};

}  // namespace

PortSearch::PortSearch(const std::vector<Address>& addresses,
                       const std::vector<std::uint16_t>& ports, const JobSecret& secret, int rank)
    : secret_(secret), rank_(rank) {
  for (const std::uint16_t port : ports) {
    for (const Address& address : addresses) {
      Attempt attempt;
      attempt.address = address.with_port(port);
      attempt.pause = kFirstPause;
      attempts_.push_back(std::move(attempt));
    }
  }
}

Result<std::optional<AuthenticatedConnection>> PortSearch::run(const Deadline& deadline) {
  while (true) {
    begin_attempts();
    std::vector<pollfd> entries;
    std::vector<Attempt*> open;
    for (Attempt& attempt : attempts_) {
      if (!attempt.socket) continue;
      const short events = attempt.connected ? POLLIN : POLLOUT;
      entries.push_back({attempt.socket.get(), events, 0});
      open.push_back(&attempt);
    }
    if (poll_until(entries, next_look(deadline)) < 0 && errno != EINTR)
      return fail_errno("cannot wait for rank 0", errno);
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (entries[i].revents == 0) continue;
      HVD_TRY(auto found, advance(*open[i], deadline));
      if (found) return found;
    }
    const auto now = Clock::now();
    for (Attempt* attempt : open)
      if (attempt->socket && attempt->limit <= now) end(*attempt);
    if (deadline.over()) return std::optional<AuthenticatedConnection>();
  }
}

// Begins attempts in order until one of them awaits an answer.
void PortSearch::begin_attempts() {
  const auto now = Clock::now();
  for (Attempt& attempt : attempts_) {
    if (now < next_begin_) return;
    if (attempt.socket || now < attempt.next) continue;
    if (begin(attempt)) next_begin_ = now + kStagger;
  }
}

// Returns whether the attempt awaits an answer.
bool PortSearch::begin(Attempt& attempt) {
  attempt.connected = false;
  attempt.received = 0;
  attempt.limit = Clock::now() + kAttemptTimeout;
  auto socket = begin_connect(attempt.address);
  if (!socket.ok()) {
    end(attempt);
    return false;
  }
  attempt.socket = std::move(*socket);
  return true;
}

// Closes the connection, and sets when to try again.
void PortSearch::end(Attempt& attempt) {
  attempt.socket = Fd();
  attempt.next = Clock::now() + attempt.pause;
  attempt.pause = std::min(2 * attempt.pause, kLongestPause);
}

// Takes the next step of an attempt whose socket is ready. Once the server has proven the secret,
// the rest of the handshake waits for it.
Result<std::optional<AuthenticatedConnection>> PortSearch::advance(Attempt& attempt,
                                                                   const Deadline& deadline) {
  if (!attempt.connected) {
    const auto nonce = random_bytes<sizeof(HandshakeNonce)>();
    if (!nonce.ok() || !end_connect(attempt.socket, attempt.address).ok()) {
      end(attempt);
      next_begin_ = {};
      return std::nullopt;
    }
    attempt.hello = make_hello(secret_, rank_, attempt.address.port(), *nonce);
    // A new connection has room for these bytes.
    attempt.connected =
        send_all(attempt.socket, attempt.hello, Deadline(std::chrono::milliseconds(0))).ok();
    if (!attempt.connected) end(attempt);
    return std::nullopt;
  }
  if (!receive_challenge(attempt)) return std::nullopt;
  auto connection =
      complete_handshake(std::move(attempt.socket), attempt.address, secret_, attempt.hello,
                         attempt.challenge, deadline.at_most(kAttemptTimeout), refusal_);
  if (connection.ok()) return std::optional(std::move(*connection));
  if (connection.error().status == HVD_ERROR_MISMATCH) return connection.error();
  end(attempt);
  return std::nullopt;
}

// Returns whether all of the challenge has arrived. Ends the attempt if the server has left.
bool PortSearch::receive_challenge(Attempt& attempt) {
  const auto rest = std::span(attempt.challenge).subspan(attempt.received);
  const auto received = receive_some(attempt.socket, rest);
  if (!received.ok()) {
    end(attempt);
    return false;
  }
  attempt.received += *received;
  return attempt.received == attempt.challenge.size();
}

// Returns when an attempt begins or ends, but not later than the deadline.
Deadline PortSearch::next_look(const Deadline& deadline) const {
  const auto now = Clock::now();
  auto first = now + kAttemptTimeout;
  for (const Attempt& attempt : attempts_)
    first = std::min(first, attempt.socket ? attempt.limit : std::max(attempt.next, next_begin_));
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - now);
  return deadline.at_most(std::max(left, std::chrono::milliseconds(0)));
}

}  // namespace libhvd
