// The wireup of ranks over TCP when there is no PMIx: rank 0 is the host, the others are clients.
// Rank 0 stays in the middle for exchange(). When only some ranks of the job start together, ranks
// are counted among these here, and are called by their rank in the job in messages.
//
// One thread, sockets with time limits. Strangers are dropped (authenticated_acceptor.hpp).
#pragma once

#include "base/result.hpp"
#include "bootstrap/authenticated_acceptor.hpp"
#include "bootstrap/rank_info.hpp"
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
  std::vector<std::uint16_t> ports;  // tried in this order by both sides
  std::string interface;             // HVD_INTERFACE: rank 0 listens there too; "": none
  std::chrono::milliseconds timeout{};
};

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  // See Bootstrap::exchange.
  virtual Result<std::vector<std::string>> exchange(const std::string& own) = 0;

  // See Bootstrap::own_address.
  virtual std::optional<Address> own_address() const = 0;
};

// Rank 0. Listens on the first free port, at `address` and `interface`. Where others cannot come
// there (this host knows its own name as a loopback address, or `address` is a gateway's) it
// listens on every interface, but only with a secret. Returns when all clients are there.
Result<std::unique_ptr<Rendezvous>> serve_rendezvous(const RendezvousSpec& spec);

// The others. Tries the ports again and again until one is rank 0's of just these ranks: others of
// the job may meet at the same time.
Result<std::unique_ptr<Rendezvous>> join_rendezvous(const RendezvousSpec& spec);

}  // namespace libhvd
