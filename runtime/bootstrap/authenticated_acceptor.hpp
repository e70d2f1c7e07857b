// Both ends of the handshake (handshake.hpp) over sockets: the acceptor lets in only ranks of the
// job, and connect_authenticated() asks to be let in. The rendezvous and the connections between
// hosts use them.
#pragma once

#include "base/connection.hpp"
#include "base/error.hpp"
#include "bootstrap/handshake.hpp"
#include "bootstrap/job_secret.hpp"
#include "bootstrap/socket.hpp"
#include "common/fd.hpp"

#include <cstddef>
#include <deque>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <vector>
struct pollfd;

namespace libhvd {

// A connection after a successful handshake.
struct AuthenticatedConnection {
  Connection socket;
  SessionKeys keys;
};

struct AcceptedRank {
  int rank;
  AuthenticatedConnection connection;
  bool other_encryption = false;  // it is of this job but differs in HVD_DATA_TLS; no connection
};

// Accepts clients on its listeners. One thread.
//
// A connection that does not speak the handshake, is of another job or does not hold the secret is
// dropped and delays no other: each has 5 s, and 256 may be pending at a time. One more replaces
// the oldest one without a valid Hello, or else the oldest. The kernel keeps connections that have
// sent nothing (TCP_DEFER_ACCEPT), so they do not get here.
class AuthenticatedAcceptor {
 public:
  // Connections that may be pending at a time.
  static constexpr std::size_t kMostPending = 256;

  AuthenticatedAcceptor(std::vector<Fd> listeners, JobSecret secret);
  ~AuthenticatedAcceptor();
  AuthenticatedAcceptor(const AuthenticatedAcceptor&) = delete;
  AuthenticatedAcceptor& operator=(const AuthenticatedAcceptor&) = delete;

  // Returns the next client; nullopt if the deadline is over. A rank may connect twice. Error: no
  // file can be opened for a connection, or poll(2) failed.
  Result<std::optional<AcceptedRank>> next(const Deadline& deadline);

 private:
  class PendingConnection;

  Result<void> take_connections(const Fd& listener);
  void make_room();
  void advance_pending(std::span<const pollfd> entries);
  bool advance(PendingConnection& pending_connection);

  std::vector<Fd> listeners_;
  JobSecret secret_;
  std::list<PendingConnection> pending_connections_;
  std::deque<AcceptedRank> accepted_;
};

// Runs the client's side of the handshake from the server's Challenge on. `address`: the server's;
// `hello`: what was sent to it. Errors and `refusal`: see connect_authenticated.
Result<AuthenticatedConnection> complete_handshake(Fd socket, const Address& address,
                                                   const JobSecret& secret, const HelloBytes& hello,
                                                   const ChallengeBytes& challenge,
                                                   const Deadline& deadline, std::string& refusal);

// Connects once, and runs the client's side of the handshake. If the server gives a reason for a
// refusal, sets `refusal` to the address and that text. Error: HVD_ERROR_MISMATCH if it is the
// server that was sought but its HVD_DATA_TLS differs, so that no further attempt can succeed;
// otherwise whatever failed.
Result<AuthenticatedConnection> connect_authenticated(const Address& address,
                                                      const JobSecret& secret, int rank,
                                                      const Deadline& deadline,
                                                      std::string& refusal);

}  // namespace libhvd
