// Makes the streams of transport/mpi_streams.hpp, for each lane, over an MPI that all have joined.
#pragma once

#include "base/result.hpp"
#include "transport/mpi_library.hpp"
#include "transport/streams.hpp"

#include <vector>

namespace libhvd {

// hosts[r]: the index of rank r's host; numbers[r]: its rank in MPI. `first_tag`: the same on all
// ranks, and unused on all. Waits for nobody. Error: there are no more tags, or
// there can be no thread.
Result<StreamLanes> make_mpi_streams(const MpiLibrary& mpi, const std::vector<int>& hosts,
                                     const std::vector<int>& numbers, int own, int lanes,
                                     int first_tag);

}  // namespace libhvd
