// Finds rank 0 among several addresses and ports, of which other programs may hold some. A server
// that accepts a connection and sends nothing delays the search by milliseconds: attempts overlap,
// and the first server that proves the secret is taken.
//
// The client side of the rendezvous owns it. One thread. A refused port is tried again, at first
// after 5 ms and at last every 200 ms; an attempt without an answer is closed after 3 s and begun
// again.
#pragma once

#include "base/error.hpp"
#include "bootstrap/authenticated_acceptor.hpp"
#include "bootstrap/handshake.hpp"
#include "bootstrap/job_secret.hpp"
#include "bootstrap/socket.hpp"
#include "common/clock.hpp"
#include "common/fd.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>
struct pollfd;

namespace libhvd {

class PortSearch {
 public:
  // Searches in the order of `ports`, each at all addresses. `rank`: the caller's.
  PortSearch(const std::vector<Address>& addresses, const std::vector<std::uint16_t>& ports,
             const JobSecret& secret, int rank);

  // Returns the connection to the server; nullopt if the deadline is over. Error:
  // HVD_ERROR_MISMATCH if the server was found but differs in HVD_DATA_TLS; HVD_ERROR_SYSTEM if
  // poll(2) failed.
  Result<std::optional<AuthenticatedConnection>> run(const Deadline& deadline);

  // Returns the last reason that a server gave for a refusal, with its address; "" if none did.
  const std::string& refusal() const { return refusal_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Attempt {
    Address address;
    Fd socket = {};  // empty: waits for `next`
    bool connected = false;
    HelloBytes hello = {};
    ChallengeBytes challenge = {};
    std::size_t received = 0;  // bytes of the challenge
    std::chrono::milliseconds pause{};
    Clock::time_point next = {};   // when to try again
    Clock::time_point limit = {};  // when this attempt ends
  };

  void begin_attempts();
  bool begin(Attempt& attempt);
  void end(Attempt& attempt);
  Result<std::optional<AuthenticatedConnection>> advance(Attempt& attempt,
                                                         const Deadline& deadline);
  bool receive_challenge(Attempt& attempt);
  Deadline next_look(const Deadline& deadline) const;

  JobSecret secret_;
  int rank_;
  std::vector<Attempt> attempts_;
  Clock::time_point next_begin_ = {};  // no attempt begins earlier
  std::string refusal_;
};

}  // namespace libhvd
