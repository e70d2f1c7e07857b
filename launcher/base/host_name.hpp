// The name of this machine.
#pragma once

#include <string>

namespace hvdrun {

// As gethostname(2) gives it; "localhost" where it gives none.
std::string host_name();

}  // namespace hvdrun
