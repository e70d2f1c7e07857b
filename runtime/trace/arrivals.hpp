// Which rank was the last to enter each collective. When all others wait for one rank, it is the
// one to look at. A plain value after among(), which is a collective.
#pragma once

#include "base/error.hpp"
#include "collective/communicator.hpp"
#include "trace/event.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace libhvd {

// When this rank entered a collective.
struct Arrival {
  StreamId stream;
  std::uint32_t sequence;
  std::int64_t at_ns;  // since the recording began, by rank 0's clock
};

struct LastArrival {
  int rank;
  std::int64_t at_ns;
};

class LastArrivals {
 public:
  // Returns nullopt if no rank has recorded that collective.
  std::optional<LastArrival> find(StreamId stream, std::uint32_t sequence) const;

  // Finds the last arrivals among those of all ranks. Collective. Error: a collective failed.
  static Result<LastArrivals> among(Communicator& communicator, std::span<const Arrival> own);

 private:
  // The part of a stream that some rank has recorded. A value packs time and rank, so that the
  // later of two is the greater; -1: no rank has recorded it.
  struct Recorded {
    std::uint32_t first = 0;
    std::vector<std::int64_t> latest;
  };

  std::map<StreamId, Recorded> streams_;
};

}  // namespace libhvd
