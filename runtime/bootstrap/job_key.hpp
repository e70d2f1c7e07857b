// The job's secret, HVD_JOB_KEY, and whether what goes to other hosts is encrypted, HVD_DATA_TLS.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <vector>

namespace libhvd {

// 32 bytes; none when the variable is unset. Error (HVD_ERROR_ENVIRONMENT): it is no key.
Result<std::vector<std::uint8_t>> read_job_key(const Environment& environment);

// Error (HVD_ERROR_ENVIRONMENT): it is neither 0 nor 1.
Result<bool> read_data_tls(const Environment& environment);

// What encryption takes: the job's key, and OpenSSL.
Outcome check_encryption(const Environment& environment);

// Where ranks differ in it, in the same words on all of them.
Error other_encryption(const std::string& with, const std::string& without);

}  // namespace libhvd
