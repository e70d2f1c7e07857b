// The meeting of ranks over TCP when there is no PMIx: rank 0 is the host, the others are guests.
// Rank 0 stays in the middle for exchange().
//
// One thread, sockets with time limits. A connection that does not speak our handshake, is of
// another job or does not hold the secret is dropped, and holds nobody up.
#pragma once

#include "base/result.hpp"
#include "bootstrap/handshake.hpp"
#include "bootstrap/socket.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace libhvd {

struct RendezvousSpec {
  int rank = 0;
  JobSecret secret;
  std::string address;               // of rank 0's host
  std::vector<std::uint16_t> ports;  // tried in this order by both sides
  std::chrono::milliseconds patience{};
};

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  // See Bootstrap::exchange.
  virtual Result<std::vector<std::string>> exchange(const std::string& own) = 0;
};

// Rank 0. Listens on the first free port: on every interface with a secret, else on that of
// `address` only. Returns when all guests are there.
Result<std::unique_ptr<Rendezvous>> host_rendezvous(const RendezvousSpec& spec);

// The others. Tries the ports again and again until one is rank 0's.
Result<std::unique_ptr<Rendezvous>> join_rendezvous(const RendezvousSpec& spec);

}  // namespace libhvd
