// Communicator::adasum: S. Maleki et al., "Scaling Distributed Training with Adaptive Summation",
// arXiv:2006.02924, by recursive doubling of the distance as in Horovod.
//
// Each sum of two tensors is a linear combination of them, so the result is a linear combination of
// all ranks' tensors. Its factors follow from the dot products of the tensors. So
//  - each rank gets a slice of every rank's tensors, and multiplies the slices with each other;
//  - the ranks add up their products, and each finds the same factors;
//  - each computes its slice of the result, and all gather the slices.
// That moves as much data as halving the vectors in each round, in fewer rounds, and only the
// result is rounded.
#include "collective/adasum_factors.h"
#include "collective/arguments.hpp"
#include "collective/call.hpp"
#include "collective/communicator.hpp"
#include "collective/element.hpp"
#include "collective/staging.hpp"
#include "hvd/float16.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace libhvd {
namespace {

constexpr std::size_t kBlock = 256;  // elements of each rank that are multiplied at a time

template <class T>
void widen_as(const std::byte* from, double* to, std::size_t count) {
  const T* const values = reinterpret_cast<const T*>(from);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (sizeof(T) == 2)
      to[i] = static_cast<double>(static_cast<float>(values[i]));
    else
      to[i] = static_cast<double>(values[i]);
  }
}

template <class T>
void narrow_as(const double* from, std::byte* to, std::size_t count) {
  T* const values = reinterpret_cast<T*>(to);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (sizeof(T) == 2)
      values[i] = T(static_cast<float>(from[i]));
    else
      values[i] = static_cast<T>(from[i]);
  }
}

void widen(hvd_type type, const std::byte* from, double* to, std::size_t count) {
  switch (type) {
    case HVD_FLOAT16:
      return widen_as<hvd::float16>(from, to, count);
    case HVD_BFLOAT16:
      return widen_as<hvd::bfloat16>(from, to, count);
    case HVD_FLOAT32:
      return widen_as<float>(from, to, count);
    default:
      return widen_as<double>(from, to, count);
  }
}

void narrow(hvd_type type, const double* from, std::byte* to, std::size_t count) {
  switch (type) {
    case HVD_FLOAT16:
      return narrow_as<hvd::float16>(from, to, count);
    case HVD_BFLOAT16:
      return narrow_as<hvd::bfloat16>(from, to, count);
    case HVD_FLOAT32:
      return narrow_as<float>(from, to, count);
    default:
      return narrow_as<double>(from, to, count);
  }
}

// Returns the dot product. Adds to several sums side by side, so that the compiler can use vectors.
double dot(const double* a, const double* b) {
  constexpr std::size_t kSums = 8;
  double sums[kSums] = {};
  for (std::size_t i = 0; i < kBlock; i += kSums) {
    for (std::size_t j = 0; j < kSums; ++j) sums[j] += a[i + j] * b[i + j];
  }
  return std::accumulate(std::begin(sums), std::end(sums), 0.0);
}

// A rank's slice of some tensors that lie one after the other.
class Slice {
 public:
  Slice(std::size_t elements, std::size_t ranks, std::size_t rank)
      : begin_(elements / ranks * rank + std::min(rank, elements % ranks)),
        length_(elements / ranks + (rank < elements % ranks ? 1 : 0)) {}

  std::size_t length() const { return length_; }

  // Calls each(tensor, first element in the slice, number of elements) for blocks of a tensor.
  template <class Each>
  void for_blocks(std::span<const std::size_t> lengths, Each each) const {
    std::size_t start = 0;  // of the tensor
    for (std::size_t tensor = 0; tensor < lengths.size(); ++tensor) {
      const std::size_t end = std::min(start + lengths[tensor], begin_ + length_);
      for (std::size_t at = std::max(start, begin_); at < end; at += kBlock)
        each(tensor, at - begin_, std::min(kBlock, end - at));
      start += lengths[tensor];
    }
  }

 private:
  std::size_t begin_;
  std::size_t length_;
};

}  // namespace

Result<void> Communicator::adasum(const void* input, void* output,
                                  std::span<const std::size_t> lengths, hvd_type type,
                                  const CallOptions& options) {
  const std::size_t count = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
  Call call = allreduce_call(input, output, count, type, HVD_ADASUM, options);
  const auto ranks = static_cast<std::size_t>(size());
  if (call.fault.empty()) call.fault = check_adasum_ranks(size());
  std::unique_ptr<std::byte[]> slices;
  if (call.fault.empty()) {
    const std::size_t own = Slice(count, ranks, static_cast<std::size_t>(rank())).length();
    slices.reset(new (std::nothrow)
                     std::byte[std::max<std::size_t>(1, ranks * own * element_size(type))]);
    if (!slices) call.fault = "there is no memory for slices of all ranks' tensors";
  }
  HVD_CHECK(open_call(call));
  const BegunCall begun = begun_;
  Result<void> outcome = combine_adaptively(input, output, lengths, type, options, slices.get());
  begun_ = begun;
  if (const auto failure = outcome.ok() ? std::nullopt : find_failure())
    return peer_error(call, *failure);
  return outcome;
}

// Does the work of adasum(). `slices`: memory for the slices that this rank gets.
Result<void> Communicator::combine_adaptively(const void* input, void* output,
                                              std::span<const std::size_t> lengths, hvd_type type,
                                              const CallOptions& options, std::byte* slices) {
  const CallOptions named{.name = options.name, .name_hash = options.name_hash};
  const auto ranks = static_cast<std::size_t>(size());
  const std::size_t count = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
  const Slice own(count, ranks, static_cast<std::size_t>(rank()));
  const std::size_t element = element_size(type);
  std::vector<std::size_t> splits;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    splits.push_back(Slice(count, ranks, rank).length());
  HVD_CHECK(
      alltoall(input, splits.data(), count, 1, type, slices, ranks * own.length(), nullptr, named));

  std::vector<double> wide(ranks * kBlock);  // a block of each rank
  const auto load = [&](std::size_t first, std::size_t length) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      double* const block = wide.data() + rank * kBlock;
      widen(type, slices + (rank * own.length() + first) * element, block, length);
      std::fill(block + length, block + kBlock, 0.0);
    }
  };
  std::vector<double> values(lengths.size() * adasum_products(ranks), 0);
  const auto products_of = [&](std::size_t tensor) {
    return values.data() + tensor * adasum_products(ranks);
  };
  own.for_blocks(lengths, [&](std::size_t tensor, std::size_t first, std::size_t length) {
    load(first, length);
    double* const products = products_of(tensor);
    for (std::size_t a = 0; a < ranks; ++a) {
      for (std::size_t b = a; b < ranks; ++b)
        products[adasum_product(a, b, ranks)] +=
            dot(wide.data() + a * kBlock, wide.data() + b * kBlock);
    }
  });
  HVD_CHECK(allreduce(values.data(), values.data(), values.size(), HVD_FLOAT64, HVD_SUM, named));

  std::vector<double> factors(ranks);
  std::size_t factors_of = lengths.size();
  own.for_blocks(lengths, [&](std::size_t tensor, std::size_t first, std::size_t length) {
    if (std::exchange(factors_of, tensor) != tensor) {
      adasum_factors(products_of(tensor), ranks, factors.data());
      for (double& factor : factors) factor *= options.scale.before * options.scale.after;
    }
    load(first, length);
    double sum[kBlock] = {};
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const double* const block = wide.data() + rank * kBlock;
      for (std::size_t i = 0; i < kBlock; ++i) sum[i] += factors[rank] * block[i];
    }
    narrow(type, sum, slices + first * element, length);  // in the place of rank 0's
  });
  return allgather(slices, own.length(), 1, type, output, count, nullptr, named);
}

}  // namespace libhvd
