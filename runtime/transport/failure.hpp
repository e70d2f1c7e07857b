// Why the collectives of a job cannot go on.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace libhvd {

enum class FailureKind : std::uint8_t {
  died = 1,
  left,
  forked,
  silent,   // nothing has come from the rank's host for too long
  garbled,  // what comes from the rank's host makes no sense
  device,   // NCCL or CUDA has failed there
  broken,   // libhvd cannot go on there: it has no memory, say
  stalled,  // others have waited for the rank longer than the user allows
};

// The first failure that was found, which is the one that all ranks name.
struct Failure {
  FailureKind kind;
  int rank;                     // in the job
  std::uint32_t pid;            // of that rank's process
  std::string host;             // that rank's host; "" when all ranks are on one
  std::vector<int> host_ranks;  // the ranks there
};

// "rank 2 (pid 1234 on n3) has died …", "host n3 (ranks 4-7) does not answer …".
std::string describe_failure(const Failure& failure);

// As one word of shared memory; never 0, which stands for "no failure".
std::uint64_t pack_failure(FailureKind kind, int rank);

struct PackedFailure {
  FailureKind kind;
  int rank;
};

// Nothing: this is no failure of a job of that size.
std::optional<PackedFailure> unpack_failure(std::uint64_t word, int size);

// What carries the data of large messages between hosts: HVD_TRANSPORT.

enum class Transport { tcp, mpi };

// As the variable names it.
const char* transport_name(Transport transport);

// TCP where the variable is unset or empty. Error (HVD_ERROR_ENVIRONMENT): it is neither.
Result<Transport> read_transport(const Environment& environment);

}  // namespace libhvd
