// Times and durations as SLURM writes them, and as hvdrun shows them. Pure functions, for any
// thread.
#pragma once

#include <chrono>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

namespace hvdrun {

// Reads a duration: "1-02:03:04", "02:03:04", "3:04". Returns nullopt for "UNLIMITED", "NOT_SET",
// "INVALID" and everything else.
std::optional<std::chrono::seconds> parse_duration(std::string_view text);

// Reads a time in seconds since 1970, which SLURM prints with SLURM_TIME_FORMAT=%s. Returns nullopt
// for "N/A", "NONE", "Unknown" and everything else.
std::optional<std::time_t> parse_moment(std::string_view text);

// Returns a duration as SLURM writes it: "1-02:03:04", "2:03:04", "3:04".
std::string duration_text(std::chrono::seconds duration);

// Returns the local time: "14:03:05" on the day of `now`, otherwise "2026-11-21 14:03:05".
std::string moment_text(std::time_t moment, std::time_t now);

}  // namespace hvdrun
