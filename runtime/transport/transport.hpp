// What carries the data of large messages between hosts: HVD_TRANSPORT.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

namespace libhvd {

enum class Transport { tcp, mpi };

// As the variable names it.
const char* transport_name(Transport transport);

// TCP where the variable is unset or empty. Error (HVD_ERROR_ENVIRONMENT): it is neither.
Result<Transport> read_transport(const Environment& environment);

}  // namespace libhvd
