// Both ends of the handshake over sockets: who listens and lets in only those of the job, and who
// seeks to be let in. The rendezvous and the bridges between hosts use it.
#pragma once

#include "bootstrap/handshake.hpp"
#include "bootstrap/socket.hpp"

#include <deque>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <vector>

struct pollfd;

namespace libhvd {

// A connection whose two ends have proven themselves to each other.
struct Proven {
  Connection socket;
  SessionKeys keys;
};

struct AcceptedRank {
  int rank;
  Proven connection;
  bool other_encryption = false;  // it is of this job, but there is no connection: see HVD_DATA_TLS
};

// One thread. A connection that does not speak the handshake, is of another job or does not hold
// the secret is dropped, and holds nobody up: each has 5 s, and 256 may be at it at once. When one
// more comes, the oldest goes that has not shown the secret in its first message; one that has said
// nothing does not reach us at all, as the kernel keeps it (TCP_DEFER_ACCEPT).
class AuthenticatedAcceptor {
 public:
  // That have not proven themselves, at a time: the oldest gives way.
  static constexpr std::size_t kMostStrangers = 256;

  AuthenticatedAcceptor(std::vector<Fd> listeners, JobSecret secret);
  ~AuthenticatedAcceptor();
  AuthenticatedAcceptor(const AuthenticatedAcceptor&) = delete;
  AuthenticatedAcceptor& operator=(const AuthenticatedAcceptor&) = delete;

  // The next client; nothing when the deadline is over. A rank may come twice.
  Result<std::optional<AcceptedRank>> next(const Deadline& deadline);

 private:
  class PendingConnection;

  Outcome take_connections(const Fd& listener);
  void make_room();
  void advance_pending(std::span<const pollfd> entries);
  bool settle(PendingConnection& pending_connection);

  std::vector<Fd> listeners_;
  JobSecret secret_;
  std::list<PendingConnection> pending_connections_;
  std::deque<AcceptedRank> clients_;
};

// One attempt. What answers may tell why it refuses, in words; then `refusal` is set.
// HVD_ERROR_MISMATCH: it is who was looked for, but HVD_DATA_TLS differs there; no other attempt
// will end otherwise.
Result<Proven> connect_authenticated(const Address& address, const JobSecret& secret, int rank,
                                     const Deadline& deadline, std::string& refusal);

}  // namespace libhvd
