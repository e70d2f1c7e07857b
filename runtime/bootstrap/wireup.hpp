// The wire-up: ranks find out over the bootstrap which of them are on one host, map one segment per
// host, and connect the hosts. Runs on the thread that starts the session.
#pragma once

#include "base/error.hpp"
#include "base/process_environment.hpp"
#include "bootstrap/bootstrap.hpp"
#include "bootstrap/rank_topology.hpp"
#include "transport/bridge.hpp"
#include "transport/mpi_library.hpp"
#include "transport/segment.hpp"
#include "transport/streams.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace libhvd {

struct Wireup {
  Topology topology;
  std::shared_ptr<Segment> segment;  // this rank has announced itself in it
  std::unique_ptr<Bridge> bridge;    // on the first rank of each host, if there are several hosts
  StreamLanes streams;               // on every rank, if there are several hosts
  std::optional<MpiLibrary> mpi;     // with HVD_TRANSPORT=mpi: what the streams use
};

struct WireupOptions {
  // How long the hosts may take to connect. Less than the bootstrap waits, so that all ranks get
  // the error.
  std::chrono::milliseconds timeout{60'000};
  // Ends the waits for other hosts, see BootstrapOptions::cancel.
  int cancel = -1;
  // If not null: after an error, the rank that this rank could not connect to, if that was it.
  std::optional<int>* unreached = nullptr;
  // The lanes of the segment. A process set needs one, because it has only an engine.
  int lanes = kLanes;
  // See Bridge::start.
  std::chrono::milliseconds silence{4'000};
  // For a process set: what it is a part of (Segment::set_job).
  std::shared_ptr<Segment> job{};
  std::vector<int> job_ranks{};
};

// Wires up all ranks of the bootstrap. Collective over the bootstrap. Ranks that see each other's
// files in HVD_SHM_DIR are on one host; names of hosts are only for messages. Error, on all ranks
// if on one: there is no room for the segment, two hosts cannot reach each other, ….
Result<Wireup> wire_up(Bootstrap& bootstrap, const Environment& environment,
                       const WireupOptions& options = {});

}  // namespace libhvd
