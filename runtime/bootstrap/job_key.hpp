// The job's secret, HVD_JOB_KEY.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <vector>

namespace libhvd {

// 32 bytes; none when the variable is unset. Error (HVD_ERROR_ENVIRONMENT): it is no key.
Result<std::vector<std::uint8_t>> read_job_key(const Environment& environment);

}  // namespace libhvd
