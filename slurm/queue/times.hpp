// Times as SLURM writes them, and as hvdrun shows them. Pure functions.
#pragma once

#include <chrono>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

namespace hvdrun {

// "1-02:03:04", "02:03:04", "3:04". None: "UNLIMITED", "NOT_SET", "INVALID", or no such time.
std::optional<std::chrono::seconds> parse_duration(std::string_view text);

// Seconds since 1970, as SLURM_TIME_FORMAT=%s makes them. None: "N/A", "NONE", "Unknown".
std::optional<std::time_t> parse_moment(std::string_view text);

// As SLURM writes durations: "1-02:03:04", "2:03:04", "3:04".
std::string duration_text(std::chrono::seconds duration);

// Local time: "14:03:05" on the day of `now`, else "2026-11-21 14:03:05".
std::string moment_text(std::time_t moment, std::time_t now);

}  // namespace hvdrun
