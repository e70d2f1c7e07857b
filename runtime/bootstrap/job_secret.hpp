// The job's secret (HVD_JOB_KEY), and whether data for other hosts is encrypted (HVD_DATA_TLS).
// Pure functions of the environment, for any thread. Errors are HVD_ERROR_ENVIRONMENT where nothing
// else is said.
#pragma once

#include "base/error.hpp"
#include "base/process_environment.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace libhvd {

// What both sides of a connection know of the job beforehand.
struct JobSecret {
  std::string job_id;
  std::vector<std::uint8_t> key;
  int size = 1;
  std::string ranks = {};  // the ranks of the job that start together, as text; "" for all
  bool encrypted = false;  // HVD_DATA_TLS
};

// Returns the key of 32 bytes; an empty one if HVD_JOB_KEY is unset. Error: its value is no key.
Result<std::vector<std::uint8_t>> read_job_key(const Environment& environment);

// Returns whether HVD_DATA_TLS is 1. Error: its value is neither 0 nor 1.
Result<bool> read_data_tls(const Environment& environment);

// Checks what encryption needs: the job's key, and OpenSSL. Error: one of them is missing.
Result<void> check_encryption(const Environment& environment);

// Returns the error for ranks that differ in HVD_DATA_TLS, in the same words on all of them. `with`
// and `without` name the ranks.
Error other_encryption(const std::string& with, const std::string& without);

}  // namespace libhvd
