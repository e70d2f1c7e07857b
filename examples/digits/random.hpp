// Random numbers that are the same everywhere: SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast
// Splittable Pseudorandom Number Generators", OOPSLA 2014). The generators and shuffles of the
// standard library return other numbers with another implementation.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

namespace digits {

class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // Returns 0 ... bound-1, all with equal probability: numbers that would make some more likely are
  // drawn again.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t unfair = (0 - bound) % bound;
    while (true) {
      const std::uint64_t number = next();
      if (number >= unfair) return number % bound;
    }
  }

  // Returns a number in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  // Returns a number of mean 0 and variance 1 (Box and Muller).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t state_;
};

// Shuffles with the algorithm of Fisher and Yates.
inline void shuffle(std::vector<int>& values, SplitMix64& random) {
  for (std::size_t left = values.size(); left > 1; --left) {
    std::swap(values[left - 1], values[random.below(left)]);
  }
}

}  // namespace digits
