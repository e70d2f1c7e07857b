// The process's environment as a value, so that tests can hand in another one.
#pragma once

#include "base/result.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace libhvd {

// Gives a variable's value; nothing when it is unset.
using Environment = std::function<std::optional<std::string>(const char* name)>;

// getenv(3).
Environment process_environment();

// The variable as a decimal integer in [minimum, maximum]; nothing when it is unset or empty.
// Error (HVD_ERROR_ENVIRONMENT): anything else, naming the variable and its value.
Result<std::optional<std::int64_t>> read_integer(const Environment& environment, const char* name,
                                                 std::int64_t minimum, std::int64_t maximum);

// The variable as a decimal number of seconds, "60" or "0.5", from 0 to `maximum`; nothing when it
// is unset or empty. More than 0 never becomes 0 by rounding. Error as above.
Result<std::optional<std::chrono::milliseconds>> read_seconds(const Environment& environment,
                                                              const char* name,
                                                              std::chrono::seconds maximum);

// The names of the host that this process runs on.

// As gethostname(2) gives it; "localhost" where it gives none.
std::string machine_name();

// As the launcher calls the host (HVD_HOSTNAME), else machine_name().
std::string host_name(const Environment& environment);

}  // namespace libhvd
