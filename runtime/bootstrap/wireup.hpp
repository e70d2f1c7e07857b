// The ranks, which the bootstrap can reach, find out who is on which host, map one segment a host,
// and connect the hosts.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "bootstrap/bootstrap.hpp"
#include "bootstrap/rank_info.hpp"
#include "transport/bridge.hpp"
#include "transport/mpi_library.hpp"
#include "transport/segment.hpp"
#include "transport/streams.hpp"

#include <chrono>
#include <memory>
#include <optional>

namespace libhvd {

struct Wireup {
  Topology topology;
  std::shared_ptr<Segment> segment;  // this rank is announced in it
  std::unique_ptr<Bridge> bridge;    // on the first rank of each host, when there are several
  StreamLanes streams;               // then, too
  std::optional<MpiLibrary> mpi;     // what these are over, with HVD_TRANSPORT=mpi
};

struct WireupOptions {
  // How long the hosts may take to connect; less than the bootstrap waits, so that all hear of it.
  std::chrono::milliseconds timeout{60'000};
  // Those of the segment: a process set, which has an engine alone, needs one.
  int lanes = kLanes;
  // See Bridge::start.
  std::chrono::milliseconds silence{4'000};
};

// Collective over the bootstrap. Ranks that can see each other's files in HVD_SHM_DIR are on one
// host; names of hosts are for messages only. What goes wrong on one rank is an error on all: there
// is no room for the segment, two hosts cannot reach each other, ….
Result<Wireup> wire_up(Bootstrap& bootstrap, const Environment& environment,
                       const WireupOptions& options = {});

}  // namespace libhvd
