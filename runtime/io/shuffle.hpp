// A uniform shuffle that gives the same order on every machine; docs/reference/formats/shuffle.md
// specifies it to the bit. Pure functions and values. They cannot fail.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace libhvd {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

// Returns a block of random words: Philox4x32-10. Source: J. K. Salmon, M. A. Moraes, R. O. Dror,
// D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC '11, doi:10.1145/2063384.2063405.
// The block depends only on counter and key, so it is the same on every machine and in every
// language.
inline PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
        static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// The words of blocks 0, 1, 2, …, one after the other. The seed is the key and the epoch the upper
// half of the counter, so two epochs or two seeds share no block.
class RandomWords {
 public:
  RandomWords(std::uint64_t seed, std::uint64_t epoch)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        epoch_{static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32)} {}

  std::uint32_t next() {
    if (used_ == words_.size()) refill();
    return words_[used_++];
  }
  // Returns two words, the lower half first.
  std::uint64_t next_64() {
    const std::uint64_t low = next();
    return low | (std::uint64_t{next()} << 32);
  }

 private:
  // Computes several blocks at once. They do not depend on each other, so the CPU works on them in
  // parallel.
  void refill() {
    for (std::size_t at = 0; at < words_.size(); at += 4) {
      const PhiloxCounter words =
          philox({static_cast<std::uint32_t>(block_), static_cast<std::uint32_t>(block_ >> 32),
                  epoch_[0], epoch_[1]},
                 key_);
      for (std::size_t i = 0; i < 4; ++i) words_[at + i] = words[i];
      ++block_;
    }
    used_ = 0;
  }

  PhiloxKey key_;
  std::array<std::uint32_t, 2> epoch_;
  std::uint64_t block_ = 0;
  std::array<std::uint32_t, 32> words_{};
  std::size_t used_ = 32;
};

// Returns each number below `bound` (at least 1) with the same probability. Source: D. Lemire,
// "Fast random integer generation in an interval", ACM TOMACS 29(1), 2019, arXiv:1805.10941,
// algorithm 5. `Random` has the functions of RandomWords. A try takes one word up to a bound of
// 2^32, else two.
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

// Shuffles by Fisher and Yates, from the last place to the second. Source: D. E. Knuth, The Art of
// Computer Programming, volume 2, 3.4.2, algorithm P.
template <class Index, class Random>
void shuffle(std::span<Index> order, Random& random) {
  // The places to swap with are anywhere in memory. Drawing some ahead lets the CPU prefetch them.
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
