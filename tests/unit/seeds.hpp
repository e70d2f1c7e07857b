// The seeds of random tests. They are constant, unless HVD_TEST_SEED=N sets others or HVD_SOAK=1
// draws new ones. A run with new seeds searches for unknown faults.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>

namespace seeds {

inline bool soak() {
  const char* const value = std::getenv("HVD_SOAK");
  return value != nullptr && std::strcmp(value, "1") == 0;
}

// Returns nullopt if the seeds are constant. Otherwise prints and returns their origin.
inline std::optional<std::uint64_t> origin() {
  static const std::optional<std::uint64_t> number = []() -> std::optional<std::uint64_t> {
    const char* const given = std::getenv("HVD_TEST_SEED");
    const bool set = given != nullptr && *given != '\0';
    if (!set && !soak()) return std::nullopt;
    const std::uint64_t chosen = set ? std::strtoull(given, nullptr, 0) : std::random_device{}();
    std::printf("HVD_TEST_SEED=%llu\n", static_cast<unsigned long long>(chosen));
    std::fflush(stdout);
    return chosen;
  }();
  return number;
}

inline bool are_new() {
  return origin().has_value();
}

// Returns the seed with this number: the number itself, or a value derived from it and the origin.
inline std::uint64_t seed(std::uint64_t number) {
  if (!are_new()) return number;
  std::uint64_t bits = *origin() + (number + 1) * 0x9e3779b97f4a7c15u;  // SplitMix64
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

}  // namespace seeds
