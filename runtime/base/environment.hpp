// What the process gets from outside: its environment as a value, so that tests can hand in another
// one, its host's name, random bytes.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "common/system.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace libhvd {

// Gives a variable's value; nothing when it is unset.
using Environment = std::function<std::optional<std::string>(const char* name)>;

// getenv(3).
Environment process_environment();

// Returns whether the variable is there and not empty.
bool is_set(const Environment& environment, const char* name);

// The variable as a decimal integer in [minimum, maximum]; nothing when it is unset or empty.
// Error (HVD_ERROR_ENVIRONMENT): anything else, naming the variable and its value.
Result<std::optional<std::int64_t>> read_integer(const Environment& environment, const char* name,
                                                 std::int64_t minimum, std::int64_t maximum);

// The variable as a decimal number of seconds, "60" or "0.5", from 0 to `maximum`; nothing when it
// is unset or empty. More than 0 never becomes 0 by rounding. Error as above.
Result<std::optional<std::chrono::milliseconds>> read_seconds(const Environment& environment,
                                                              const char* name,
                                                              std::chrono::seconds maximum);

// This host as the launcher calls it (HVD_HOSTNAME), else local_host_name().
std::string host_name(const Environment& environment);

// Bytes that nobody can guess.
template <std::size_t kCount>
requires(kCount <= 256) Result<std::array<std::uint8_t, kCount>> random_bytes() {
  std::array<std::uint8_t, kCount> bytes{};
  if (!fill_random(bytes)) return fail_errno("cannot get random bytes", errno);
  return bytes;
}

}  // namespace libhvd
