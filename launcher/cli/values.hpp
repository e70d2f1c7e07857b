// The values that options take, read from text.
//
// Pure functions. Every error is a phrase to follow the option's name ("needs a whole number …"),
// on one line whatever the text holds.
#pragma once

#include "base/result.hpp"
#include "common/text.hpp"
#include "model/job_spec.hpp"

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvdrun::cli {

// A whole number from `minimum` to the largest int.
Result<int> parse_whole(std::string_view text, int minimum);

// Seconds ("30", "0.5") or with a unit ("500ms", "30s", "2m"). Not negative; more than zero never
// becomes zero by rounding to milliseconds.
Result<std::chrono::milliseconds> parse_duration(std::string_view text);

// The same, and more than zero.
Result<std::chrono::milliseconds> parse_time_limit(std::string_view text);

// Megabytes of 1024 * 1024 bytes, decimals allowed, in bytes.
Result<std::int64_t> parse_megabytes(std::string_view text);

// A signal's name with or without "SIG", in any case, or its number.
Result<int> parse_signal(std::string_view text);

// The hosts of -H: "name[:slots],…", see model/host_request.hpp.
Result<std::vector<HostRequest>> parse_hosts(std::string_view text);

// The same without slots and users: names of hosts, "n[1-4],n7".
Result<std::vector<std::string>> parse_host_names(std::string_view text);

// "NAME" or "NAME=VALUE".
Result<EnvironmentChange> parse_environment_change(std::string_view text);

// none, rank, rank@host, or a text with "{": a template, whose fields output/ checks.
Result<std::string> parse_label(std::string_view text);

// none, all, or a rank.
Result<InputSpec> parse_input(std::string_view text);

// The frameworks of --for, "jax,mlx": adds them to those that are there; `none` takes all back.
Result<void> add_frameworks(std::string_view value, std::set<Framework>& frameworks);

// 1 to 65535.
Result<int> parse_port(std::string_view text);

// The name of a file, folder or program: anything but an empty one.
Result<std::string> parse_path(std::string_view text);

// Keeps a value that was read well in its field.
template <class T, class Field>
Result<void> store(Result<T> value, Field& field) {
  if (!value) return std::move(value).error();
  field = std::move(*value);
  return {};
}

// "must be a, b or c, not …".
Error unknown_choice(std::string_view text, const std::vector<std::string_view>& names);

template <class T>
Result<T> parse_choice(std::string_view text,
                       std::initializer_list<std::pair<std::string_view, T>> choices) {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : choices) {
    if (name == text) return value;
    names.push_back(name);
  }
  return unknown_choice(text, names);
}

}  // namespace hvdrun::cli
