// The bootstrap over TCP, without PMIx: rank 0 is the server, the other ranks are its clients, and
// exchange() goes through rank 0. If only some ranks of the job start together, `rank` is the
// number among these, and messages use the rank in the job.
//
// One thread; sockets with time limits. Connections that do not prove the secret are dropped
// (authenticated_acceptor.hpp).
#pragma once

#include "base/error.hpp"
#include "bootstrap/chosen_ranks.hpp"
#include "bootstrap/job_secret.hpp"
#include "bootstrap/socket.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace libhvd {

struct RendezvousSpec {
  int rank = 0;
  ChosenRanks chosen = {};
  JobSecret secret;
  std::string address;               // of rank 0's host
  std::vector<std::uint16_t> ports;  // both sides try them in this order
  std::string interface;             // HVD_INTERFACE: rank 0 also listens there; "" if unset
  std::chrono::milliseconds timeout{};
  int cancel = -1;  // see BootstrapOptions
  // A rank without a launcher says after this time for whom it waits (note_wait).
  std::chrono::milliseconds note_after{5000};
};

// Prints on stderr which ranks `rank` waits for, and for how long at most.
void note_wait(const std::string& rank, const std::string& others, const RendezvousSpec& spec);

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  // See Bootstrap::exchange.
  virtual Result<std::vector<std::string>> exchange(const std::string& own) = 0;

  // See Bootstrap::own_address.
  virtual std::optional<Address> own_address() const = 0;
};

// Starts rank 0's side: listens on the first free port at `address` and `interface`, and returns
// when all clients have connected. Listens on every interface if others cannot reach those
// addresses (this host knows its own name as a loopback address, or `address` is a gateway's), but
// only with a secret. Error: no port is free, or a rank did not connect in time
// (HVD_ERROR_TIMEOUT).
Result<std::unique_ptr<Rendezvous>> serve_rendezvous(const RendezvousSpec& spec);

// Starts the side of the other ranks: tries the ports again until one is that of rank 0 of exactly
// these ranks, because other ranks of the job may start at the same time. Error: it was not found
// in time (HVD_ERROR_TIMEOUT), or differs in HVD_DATA_TLS.
Result<std::unique_ptr<Rendezvous>> join_rendezvous(const RendezvousSpec& spec);

}  // namespace libhvd
