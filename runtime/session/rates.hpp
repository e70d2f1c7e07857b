// Learning rates for many ranks: pure functions, see hvd/rates.h. All errors are
// HVD_ERROR_INVALID_ARGUMENT and name the argument.
#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <string_view>

#include <hvd/rates.h>

namespace libhvd {

Result<double> scale_rate(double rate, std::int64_t size, hvd_scaling scaling);
Result<double> warmup(double from, double to, std::int64_t step, std::int64_t steps);
Result<hvd_scaling> parse_scaling(std::string_view name);

// Returns null if there is no such scaling.
const char* scaling_name(hvd_scaling scaling);

}  // namespace libhvd
