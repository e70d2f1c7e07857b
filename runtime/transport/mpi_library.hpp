// Opens libhvd_mpi.so if HVD_TRANSPORT=mpi. The plugin is never closed, because MPI's threads and
// exit handlers would not survive that. There is one in a process; for threads see mpi_plugin.h.
#pragma once

#include "base/error.hpp"
#include "base/process_environment.hpp"
#include "transport/mpi_plugin.h"

#include <string>

namespace libhvd {

// A handle of the plugin; it may be copied.
class MpiLibrary {
 public:
  // Opens the library that HVD_MPI_LIBRARY names, or else the one beside libhvd.so, or else the one
  // that the loader finds. Error (HVD_ERROR_UNSUPPORTED): it cannot be opened, or has another
  // version.
  static Result<MpiLibrary> open(const Environment& environment);

  const hvd_mpi_plugin& functions() const { return *functions_; }

  // Call the plugin's functions of the same name. Error: HVD_ERROR_UNSUPPORTED.
  Result<void> check(int rank, int size) const;
  Result<void> start(int rank, int size) const;
  Result<void> join() const;
  Result<void> reserve_tags(int first, int count) const;

 private:
  explicit MpiLibrary(const hvd_mpi_plugin* functions) : functions_(functions) {}

  const hvd_mpi_plugin* functions_;
};

}  // namespace libhvd
