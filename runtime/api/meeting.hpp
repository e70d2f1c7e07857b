// The ranks, which the bootstrap can reach, agree on where each is and map one segment.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "bootstrap/bootstrap.hpp"
#include "bootstrap/topology.hpp"
#include "transport/segment.hpp"

#include <memory>

namespace libhvd {

struct Meeting {
  Topology topology;
  std::shared_ptr<Segment> segment;  // this rank is announced in it
};

// Collective over the bootstrap. What goes wrong on one rank is an error on all: there is no room
// for the segment, or (HVD_ERROR_UNSUPPORTED) some ranks are on another host.
Result<Meeting> meet(Bootstrap& bootstrap, const Environment& environment);

}  // namespace libhvd
