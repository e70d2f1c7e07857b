// Which samples each rank takes in each step of an epoch: a function of the options alone.
// docs/reference/formats/shuffle.md is the specification, hvd/data.h has a summary. Values, for any
// thread.
#pragma once

#include "base/error.hpp"

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

// A contiguous part of a whole.
struct Part {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};
// Returns the part of `rank` when `whole` is cut into `size` contiguous parts whose sizes differ by
// at most one: from floor(whole · rank / size) to floor(whole · (rank + 1) / size).
Part part_of(std::int64_t whole, int rank, int size);

// One rank's samples of an epoch. Constant after make(), so several threads may read it. With
// shuffling it holds the order of all samples: 4 bytes per sample, beyond 2^32 samples 8.
class Shard {
 public:
  // Error: HVD_ERROR_INVALID_ARGUMENT for impossible options; HVD_ERROR_SYSTEM if the order does
  // not fit into this machine's memory.
  static Result<Shard> make(const ShardOptions& options);
  // Divides the same order among other ranks. Error: these options are impossible; nothing changes.
  Result<void> divide_among(int size, int rank);

  std::int64_t steps() const { return steps_; }
  // Returns the number of samples of all ranks together in a step. Error: no such step.
  Result<std::int64_t> batch_size(std::int64_t step) const;
  // Replaces the content of `indices` by this rank's samples of the step. Error: no such step.
  Result<void> indices(std::int64_t step, std::vector<std::int64_t>& indices) const;

 private:
  Shard() = default;
  void count_steps();
  Result<void> check_step(std::int64_t step) const;
  std::int64_t batch_size_of(std::int64_t step) const;
  std::int64_t sample_at(std::int64_t place) const;

  ShardOptions options_;
  std::int64_t total_ = 0;  // places in the epoch, after the rule for the remainder
  std::int64_t steps_ = 0;
  std::vector<std::uint32_t> order_;       // if shuffled, up to 2^32 samples
  std::vector<std::uint64_t> long_order_;  // if shuffled, beyond 2^32 samples
};

}  // namespace libhvd
