// libhvd_mpi.so, opened where HVD_TRANSPORT=mpi asks for it. Never closed: MPI's threads and exit
// handlers do not survive that.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "transport/mpi_plugin.h"

#include <string>

namespace libhvd {

// A handle on the one plugin of the process; it may be copied.
class MpiLibrary {
 public:
  // The library that HVD_MPI_LIBRARY names; else the one beside libhvd.so; else the one that the
  // loader finds. Error (HVD_ERROR_UNSUPPORTED): none can be opened, or it is not of this version.
  static Result<MpiLibrary> open(const Environment& environment);

  const hvd_mpi_plugin& functions() const { return *functions_; }

  // These are the plugin's, with errors as values (HVD_ERROR_UNSUPPORTED).
  Result<void> check(int rank, int size) const;
  Result<void> start(int rank, int size) const;
  Result<void> join() const;
  Result<void> reserve_tags(int first, int count) const;

 private:
  explicit MpiLibrary(const hvd_mpi_plugin* functions) : functions_(functions) {}

  const hvd_mpi_plugin* functions_;
};

}  // namespace libhvd
