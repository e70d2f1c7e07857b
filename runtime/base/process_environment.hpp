// What the process gets from outside: its environment (as a value, so that tests can pass another
// one), its host's name, and random bytes. Any thread, as long as none calls setenv(3).
#pragma once

#include "base/error.hpp"
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

// Returns a variable's value; nullopt if it is unset.
using Environment = std::function<std::optional<std::string>(const char* name)>;

// Returns the environment of this process (getenv(3)).
Environment process_environment();

// Returns whether the variable is set and not empty.
bool is_set(const Environment& environment, const char* name);

// Reads a variable as a decimal integer in [minimum, maximum]. Returns nullopt if it is unset or
// empty. Error (HVD_ERROR_ENVIRONMENT): any other value; the message names the variable and the
// value.
Result<std::optional<std::int64_t>> read_integer(const Environment& environment, const char* name,
                                                 std::int64_t minimum, std::int64_t maximum);

// Reads a variable as a decimal number of seconds, "60" or "0.5", from 0 to `maximum`. Rounds up to
// milliseconds. Returns nullopt if it is unset or empty. Error as of read_integer().
Result<std::optional<std::chrono::milliseconds>> read_seconds(const Environment& environment,
                                                              const char* name,
                                                              std::chrono::seconds maximum);

// Returns the launcher's name of this host (HVD_HOSTNAME), or local_host_name() if that is unset.
std::string host_name(const Environment& environment);

// Returns random bytes for secrets. Error: getrandom(2) failed.
template <std::size_t kCount>
requires(kCount <= 256) Result<std::array<std::uint8_t, kCount>> random_bytes() {
  std::array<std::uint8_t, kCount> bytes{};
  if (!fill_random(bytes)) return fail_errno("cannot get random bytes", errno);
  return bytes;
}

}  // namespace libhvd
