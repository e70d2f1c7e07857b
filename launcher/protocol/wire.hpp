// Stores and loads integers as they are on the wire: little endian on every host. Pure functions.
#pragma once

#include <bit>
#include <concepts>
#include <cstring>

namespace hvdrun::wire {

static_assert(std::endian::native == std::endian::little,
              "hvdrun is built for little-endian hosts; a big-endian one needs swaps here");

template <std::unsigned_integral T>
void store(char* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

template <std::unsigned_integral T>
T load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace hvdrun::wire
