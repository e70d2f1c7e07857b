// The names of the host that this process runs on.
#pragma once

#include "base/environment.hpp"

#include <string>

namespace libhvd {

// As gethostname(2) gives it; "localhost" where it gives none.
std::string machine_name();

// As the launcher calls the host (HVD_HOSTNAME), else machine_name().
std::string host_name(const Environment& environment);

}  // namespace libhvd
