// Which samples each rank takes, and the random order that this stands on.
#pragma once

#include "base/result.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <hvd/data.h>

namespace libhvd {

// Which samples each rank takes in each step of an epoch. A value that is a function of its options
// alone; docs/data.md is the specification, hvd/data.h says it in short.

struct ShardOptions {
  std::int64_t samples = 0;
  std::int64_t batch = 0;  // of all ranks together
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;
  bool shuffle = true;
  hvd_remainder remainder = HVD_REMAINDER_UNEVEN;
  int rank = 0;
  int size = 1;
};

// The part of `whole` that is `rank`'s when it is cut into `size` contiguous parts that differ by
// at most one: from floor(whole · rank / size) to floor(whole · (rank + 1) / size).
struct Part {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};
Part part_of(std::int64_t whole, int rank, int size);

// May be read from several threads. Its memory is the order of the samples: 4 bytes each up to 2^32
// samples, else 8; nothing without shuffling.
class Shard {
 public:
  // Errors: HVD_ERROR_INVALID_ARGUMENT for options that make no sense; HVD_ERROR_SYSTEM when the
  // order does not fit into this machine's memory.
  static Result<Shard> make(const ShardOptions& options);

  std::int64_t steps() const { return steps_; }
  // Samples of all ranks together in a step.
  Result<std::int64_t> batch_size(std::int64_t step) const;
  // Replaces what is in `indices` by this rank's samples of the step.
  Result<void> indices(std::int64_t step, std::vector<std::int64_t>& indices) const;

 private:
  Shard() = default;
  Result<void> check_step(std::int64_t step) const;
  std::int64_t batch_size_of(std::int64_t step) const;
  std::int64_t sample_at(std::int64_t place) const;

  ShardOptions options_;
  std::int64_t total_ = 0;  // places in the epoch, after the rule for the remainder
  std::int64_t steps_ = 0;
  std::vector<std::uint32_t> order_;       // when shuffled, up to 2^32 samples
  std::vector<std::uint64_t> long_order_;  // when shuffled, beyond
};

// Philox4x32-10: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as
// easy as 1, 2, 3", SC '11, doi:10.1145/2063384.2063405. A block of random words is a function of a
// counter and a key and of nothing else, so the same on every machine and in every language.

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

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

// The words of blocks 0, 1, 2, …, one after the other. The seed is the key, the epoch the upper
// half of the counter: two epochs, or two seeds, have no block in common.
class RandomWords {
 public:
  RandomWords(std::uint64_t seed, std::uint64_t epoch)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        epoch_{static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32)} {}

  std::uint32_t next() {
    if (used_ == words_.size()) refill();
    return words_[used_++];
  }
  // Two words, the lower half first.
  std::uint64_t next_64() {
    const std::uint64_t low = next();
    return low | (std::uint64_t{next()} << 32);
  }

 private:
  // Several blocks at once: they do not depend on each other, so the CPU works on them together.
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

// A uniform shuffle that gives the same order everywhere; docs/data.md specifies it to the bit.

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
