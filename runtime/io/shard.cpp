#include "io/shard.hpp"

#include "io/shuffle.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <string>

#include <unistd.h>

namespace libhvd {
namespace {

// Small enough to pad and to add without overflow.
constexpr std::int64_t kMostSamples = std::int64_t{1} << 62;

Error invalid_shard(const std::string& message) {
  return fail(HVD_ERROR_INVALID_ARGUMENT, "shard: " + message);
}

Result<void> check_shard(const ShardOptions& options) {
  const auto number = [](auto value) { return std::to_string(value); };
  if (options.samples < 0 || options.samples > kMostSamples)
    return invalid_shard("samples is " + number(options.samples) + "; it must be 0 to 2^62");
  if (options.batch < 1)
    return invalid_shard("batch is " + number(options.batch) +
                         "; it must be at least 1 (it counts the samples of all ranks together)");
  if (options.epoch < 0)
    return invalid_shard("epoch is " + number(options.epoch) + "; it must not be negative");
  if (options.size < 1)
    return invalid_shard("size is " + number(options.size) + "; it must be at least 1");
  if (options.rank < 0 || options.rank >= options.size)
    return invalid_shard("rank " + number(options.rank) + " is not a rank of 0 to " +
                         number(options.size - 1));
  const bool even =
      options.remainder == HVD_REMAINDER_PAD || options.remainder == HVD_REMAINDER_DROP;
  if (!even && options.remainder != HVD_REMAINDER_UNEVEN)
    return invalid_shard("remainder is " + number(options.remainder) +
                         ", which is none of HVD_REMAINDER_…");
  if (even && options.batch % options.size != 0)
    return invalid_shard(
        "a batch of " + number(options.batch) + " cannot be dealt evenly to " +
        number(options.size) +
        " ranks; with the remainders pad and drop the batch must be a multiple of the "
        "size (uneven takes any)");
  return {};
}

// Returns the number of places in the epoch, after the rule for the remainder.
std::int64_t count_places(const ShardOptions& options) {
  const std::int64_t over = options.samples % options.size;
  if (over == 0 || options.remainder == HVD_REMAINDER_UNEVEN) return options.samples;
  const std::int64_t even = options.samples - over;
  return options.remainder == HVD_REMAINDER_PAD ? even + options.size : even;
}

// Checks that the order fits into this machine's memory. Trying would not show it: Linux promises
// more memory than the machine has, and kills the process that uses it.
Result<void> check_memory(std::int64_t samples, std::size_t bytes_each) {
  const auto pages = static_cast<double>(::sysconf(_SC_PHYS_PAGES));
  const double memory = pages * static_cast<double>(::sysconf(_SC_PAGESIZE));
  const double needed = static_cast<double>(samples) * static_cast<double>(bytes_each);
  if (needed <= memory) return {};
  const auto megabytes = [](double bytes) {
    return std::to_string(static_cast<std::int64_t>(bytes / 1e6)) + " MB";
  };
  return fail(HVD_ERROR_SYSTEM, "shard: the shuffled order of " + std::to_string(samples) +
                                    " samples takes " + megabytes(needed) + "; this machine has " +
                                    megabytes(memory));
}

template <class Index>
std::vector<Index> shuffled(const ShardOptions& options) {
  std::vector<Index> order(static_cast<std::size_t>(options.samples));
  std::iota(order.begin(), order.end(), Index{0});
  RandomWords random(options.seed, static_cast<std::uint64_t>(options.epoch));
  shuffle(std::span(order), random);
  return order;
}

}  // namespace

Part part_of(std::int64_t whole, int rank, int size) {
  // In two terms, because whole · rank may not fit; both floors are exact.
  const auto edge = [&](std::int64_t r) { return whole / size * r + whole % size * r / size; };
  return {edge(rank), edge(rank + std::int64_t{1}) - edge(rank)};
}

Result<Shard> Shard::make(const ShardOptions& options) {
  HVD_CHECK(check_shard(options));
  Shard shard;
  shard.options_ = options;
  shard.count_steps();
  if (!options.shuffle) return shard;
  const bool is_short = options.samples <= std::int64_t{1} << 32;
  HVD_CHECK(check_memory(options.samples, is_short ? 4 : 8));
  if (is_short) {
    shard.order_ = shuffled<std::uint32_t>(options);
  } else {
    shard.long_order_ = shuffled<std::uint64_t>(options);
  }
  return shard;
}

Result<void> Shard::divide_among(int size, int rank) {
  ShardOptions options = options_;
  options.size = size;
  options.rank = rank;
  HVD_CHECK(check_shard(options));
  options_ = options;
  count_steps();
  return {};
}

void Shard::count_steps() {
  total_ = count_places(options_);
  steps_ = total_ / options_.batch + (total_ % options_.batch != 0 ? 1 : 0);
}

Result<void> Shard::check_step(std::int64_t step) const {
  if (step >= 0 && step < steps_) return {};
  return invalid_shard("there is no step " + std::to_string(step) + "; this epoch has " +
                       std::to_string(steps_) + (steps_ == 1 ? " step" : " steps"));
}

std::int64_t Shard::batch_size_of(std::int64_t step) const {
  return std::min(options_.batch, total_ - step * options_.batch);
}

Result<std::int64_t> Shard::batch_size(std::int64_t step) const {
  HVD_CHECK(check_step(step));
  return batch_size_of(step);
}

std::int64_t Shard::sample_at(std::int64_t place) const {
  const std::int64_t at = place < options_.samples ? place : place % options_.samples;
  if (!order_.empty()) return order_[static_cast<std::size_t>(at)];
  if (!long_order_.empty())
    return static_cast<std::int64_t>(long_order_[static_cast<std::size_t>(at)]);
  return at;
}

Result<void> Shard::indices(std::int64_t step, std::vector<std::int64_t>& indices) const {
  HVD_CHECK(check_step(step));
  const std::int64_t first = step * options_.batch;
  const std::int64_t length = batch_size_of(step);
  // Contiguous parts; or dealt in turn, as torch does it: place p goes to rank p mod size.
  const bool dealt = options_.remainder != HVD_REMAINDER_UNEVEN;
  const Part part = dealt ? Part{options_.rank, length / options_.size}
                          : part_of(length, options_.rank, options_.size);
  const std::int64_t stride = dealt ? options_.size : 1;
  indices.resize(static_cast<std::size_t>(part.count));
  for (std::int64_t i = 0; i < part.count; ++i) {
    indices[static_cast<std::size_t>(i)] = sample_at(first + part.begin + i * stride);
  }
  return {};
}

}  // namespace libhvd
