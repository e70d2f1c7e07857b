// What carries the data of large messages between hosts (HVD_TRANSPORT). Pure functions.
#pragma once

#include "base/error.hpp"
#include "base/process_environment.hpp"

namespace libhvd {

enum class Transport { tcp, mpi };

// Returns the name that HVD_TRANSPORT uses: "tcp" or "mpi".
const char* transport_name(Transport transport);

// Reads HVD_TRANSPORT. Returns TCP if it is unset or empty. Error (HVD_ERROR_ENVIRONMENT): it is
// another name.
Result<Transport> read_transport(const Environment& environment);

}  // namespace libhvd
