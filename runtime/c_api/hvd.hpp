// hvd_init_options as a value.
#pragma once

#include "base/result.hpp"
#include "session/session.hpp"

#include <hvd/hvd.h>

namespace libhvd {

// Null: all defaults. What is wrong with the process sets is told to the other ranks later. Error:
// what is wrong with the rest, without which it is not known who these are.
Result<StartOptions> read_start_options(const hvd_init_options* options);

}  // namespace libhvd
