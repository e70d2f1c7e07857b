// A uniform shuffle that gives the same order everywhere; docs/data.md specifies it to the bit.
#pragma once

#include "data/philox.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace libhvd {

// Every number below `bound` (at least 1) with the same probability: D. Lemire, "Fast random
// integer generation in an interval", ACM TOMACS 29(1), 2019, arXiv:1805.10941, algorithm 5.
// `Random` gives words like RandomWords. One word a try up to a bound of 2^32, else two.
template <class Random>
std::uint64_t random_below(Random& random, std::uint64_t bound) {
  constexpr std::uint64_t k2To32 = std::uint64_t{1} << 32;
  if (bound <= k2To32) {
    std::uint64_t product = random.next() * bound;
    if (static_cast<std::uint32_t>(product) < bound) {
      const std::uint64_t unfair = (k2To32 - bound) % bound;
      while (static_cast<std::uint32_t>(product) < unfair) product = random.next() * bound;
    }
    return product >> 32;
  }
  __extension__ using Product = unsigned __int128;
  Product product = static_cast<Product>(random.next_64()) * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t unfair = (0 - bound) % bound;
    while (static_cast<std::uint64_t>(product) < unfair) {
      product = static_cast<Product>(random.next_64()) * bound;
    }
  }
  return static_cast<std::uint64_t>(product >> 64);
}

// Fisher and Yates, from the last place to the second (D. E. Knuth, The Art of Computer
// Programming, volume 2, 3.4.2, algorithm P).
template <class Index, class Random>
void shuffle(std::span<Index> order, Random& random) {
  // The places to swap with lie anywhere in memory: draw some ahead, so that they are on their way.
  std::array<std::size_t, 32> chosen;
  for (std::size_t left = order.size(); left > 1;) {
    const std::size_t count = std::min(chosen.size(), left - 1);
    for (std::size_t i = 0; i < count; ++i) {
      chosen[i] = static_cast<std::size_t>(random_below(random, left - i));
      __builtin_prefetch(&order[chosen[i]], 1);
    }
    for (std::size_t i = 0; i < count; ++i) std::swap(order[left - 1 - i], order[chosen[i]]);
    left -= count;
  }
}

}  // namespace libhvd
