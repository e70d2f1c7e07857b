// Which rank came last to each collective. When all others wait for one rank, this is the one to
// look at.
#pragma once

#include "base/result.hpp"
#include "collective/communicator.hpp"
#include "trace/event.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace libhvd {

// When this rank came to a collective.
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
  // Nothing: no rank has recorded it.
  std::optional<LastArrival> find(StreamId stream, std::uint32_t sequence) const;

  // Of all ranks. Collective.
  static Result<LastArrivals> among(Communicator& communicator, std::span<const Arrival> own);

 private:
  // A stream's part that some rank has recorded. A value tells when and who, and is the greater the
  // later; -1: nobody.
  struct Stretch {
    std::uint32_t first = 0;
    std::vector<std::int64_t> latest;
  };

  std::map<StreamId, Stretch> streams_;
};

}  // namespace libhvd
