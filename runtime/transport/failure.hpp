// Why the collectives of a job cannot continue: which rank failed, and how. Plain values and pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace libhvd {

enum class FailureKind : std::uint8_t {
  died = 1,
  left,
  forked,
  silent,   // nothing has arrived from the rank's host for too long
  garbled,  // the data from the rank's host makes no sense
  device,   // NCCL or CUDA has failed there
  broken,   // libhvd cannot continue there, because it has no memory for example
  stalled,  // others have waited for the rank longer than the user allows
  waited,   // its GPU has waited for those of other ranks longer than the user allows
  over,     // the generation of the job is over, because of this rank or of one that is not in the
            // segment (member_link.hpp)
};

// The first failure that was found. All ranks report this one.
struct Failure {
  FailureKind kind;
  int rank;                     // in the job
  std::uint32_t pid;            // of that rank's process
  std::string host;             // that rank's host; "" if all ranks are on one host
  std::vector<int> host_ranks;  // the ranks there
};

// Returns "rank 2 (pid 1234 on n3) has died …" or "host n3 (ranks 4-7) does not answer …".
std::string describe_failure(const Failure& failure);

// Returns the failure as one word of shared memory; never 0, which means "no failure".
std::uint64_t pack_failure(FailureKind kind, int rank);

struct PackedFailure {
  FailureKind kind;
  int rank;
};

// Returns nullopt if the word is not a failure of a job of that size.
std::optional<PackedFailure> unpack_failure(std::uint64_t word, int size);

}  // namespace libhvd
