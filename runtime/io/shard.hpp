// Which samples each rank takes in each step of an epoch. A value that is a function of its options
// alone; docs/data.md is the specification, hvd/data.h says it in short.
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <vector>

#include <hvd/data.h>

namespace libhvd {

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
  Outcome indices(std::int64_t step, std::vector<std::int64_t>& indices) const;

 private:
  Shard() = default;
  Outcome check_step(std::int64_t step) const;
  std::int64_t batch_size_of(std::int64_t step) const;
  std::int64_t sample_at(std::int64_t place) const;

  ShardOptions options_;
  std::int64_t total_ = 0;  // places in the epoch, after the rule for the remainder
  std::int64_t steps_ = 0;
  std::vector<std::uint32_t> order_;       // when shuffled, up to 2^32 samples
  std::vector<std::uint64_t> long_order_;  // when shuffled, beyond
};

}  // namespace libhvd
