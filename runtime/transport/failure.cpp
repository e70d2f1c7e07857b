#include "transport/failure.hpp"

#include "common/text.hpp"

#include <string>

namespace libhvd {

std::string describe_failure(const Failure& failure) {
  const std::string on_host = failure.host.empty() ? "" : " on " + failure.host;
  const std::string who = "rank " + std::to_string(failure.rank) + " (pid " +
                          std::to_string(failure.pid) + on_host + ")";
  const std::string host = "host " + failure.host + " (" + describe_ranks(failure.host_ranks) + ")";
  switch (failure.kind) {
    case FailureKind::died:
      return who + " has died. See its own output for why";
    case FailureKind::left:
      return who + " has left: it called hvd_shutdown or exited while others still wait for it";
    case FailureKind::forked:
      return "a process forked by " + who +
             " has called a collective, which only the process that called hvd_init may do";
    case FailureKind::silent:
      return host +
             " does not answer: it is down or cut off "
             "(HVD_HOST_TIMEOUT says how long to wait)";
    case FailureKind::garbled:
      return host + " has sent data that makes no sense";
    case FailureKind::broken:
      return "libhvd cannot continue in " + who + ". See its own error for why";
    case FailureKind::stalled:
      return who +
             " has kept others waiting too long (HVD_STALL_SHUTDOWN_TIME_SECONDS says how long "
             "they may)";
    case FailureKind::waited:
      return "the GPU of " + who +
             " has waited too long for those of other ranks (HVD_STALL_SHUTDOWN_TIME_SECONDS says "
             "how long it may)";
    case FailureKind::over:
      return "this generation of the job is over";
    case FailureKind::device:
      return "NCCL or CUDA has failed on " + who + ". See its own error for why";
  }
  return who + " has failed";
}

std::uint64_t pack_failure(FailureKind kind, int rank) {
  return (static_cast<std::uint64_t>(kind) << 32) | static_cast<std::uint32_t>(rank);
}

std::optional<PackedFailure> unpack_failure(std::uint64_t word, int size) {
  const std::uint64_t kind = word >> 32;
  const std::uint64_t rank = word & 0xffffffffu;
  if (kind < static_cast<std::uint64_t>(FailureKind::died) ||
      kind > static_cast<std::uint64_t>(FailureKind::over) ||
      rank >= static_cast<std::uint64_t>(size)) {
    return std::nullopt;
  }
  return PackedFailure{static_cast<FailureKind>(kind), static_cast<int>(rank)};
}

}  // namespace libhvd
