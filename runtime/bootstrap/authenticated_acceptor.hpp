// Both ends of the handshake (handshake.hpp) over sockets: the acceptor lets in only ranks of the
// job, and connect_authenticated() asks to be let in. The rendezvous and the connections between
// hosts use them.
#pragma once

#include "base/error.hpp"
#include "bootstrap/handshake.hpp"
#include "bootstrap/job_secret.hpp"
#include "bootstrap/socket.hpp"
#include "common/fd.hpp"
#include "common/net/acceptor.hpp"
#include "common/net/connection.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

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

// Accepts clients on its listeners, as common/net/acceptor.hpp does. One thread.
//
// A connection that does not speak the handshake, is of another job or does not hold the secret is
// dropped and delays no other.
class AuthenticatedAcceptor {
 public:
  AuthenticatedAcceptor(std::vector<Fd> listeners, JobSecret secret);
  ~AuthenticatedAcceptor();
  AuthenticatedAcceptor(const AuthenticatedAcceptor&) = delete;
  AuthenticatedAcceptor& operator=(const AuthenticatedAcceptor&) = delete;

  // Returns the next client; nullopt if the deadline is over. A rank may connect twice. Error: no
  // file can be opened for a connection, for a second already, or poll(2) failed.
  Result<std::optional<AcceptedRank>> next(const Deadline& deadline);

 private:
  Result<void> open();

  std::vector<Fd> listeners_;  // until open()
  JobSecret secret_;
  std::unique_ptr<Acceptor> acceptor_;
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
