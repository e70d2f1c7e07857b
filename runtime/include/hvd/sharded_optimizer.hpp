// An optimizer whose state is divided among the ranks: each takes the step for its part of the
// parameters, and keeps the momentum and so on of that part only. A part of methods.hpp.
//
// S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
// arXiv:1910.02054, stage 1. A step is a reducescatter of the gradients, the program's update of
// the rank's shard, and an allgather of the parameters. A shard is an equal part of the elements of
// all parameters, one after the other, so it may begin and end within a tensor.
//
// An object belongs to one thread. Errors are hvd::Error.
#ifndef HVD_SHARDED_OPTIMIZER_HPP_
#define HVD_SHARDED_OPTIMIZER_HPP_

#include "hvd/method_support.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hvd {

// The program's optimizer: changes parameters by their gradients, each element by itself. Both are
// this rank's shard: elements() of them, in the same order in every call.
using ShardUpdate =
    std::function<void(std::span<float> parameters, std::span<const float> gradients)>;

class ShardedOptimizer {
 public:
  // A collective. `parameters` and `gradients`: tensors of float in host memory, in the same order,
  // with the same names and shapes on all ranks. Errors, on all ranks: the parameters differ;
  // gradients do not fit the parameters.
  ShardedOptimizer(const State& parameters, const State& gradients, ShardUpdate update)
      : parameters_(parameters), gradients_(gradients), update_(std::move(update)) {
    detail::Offer offer{0, "", {{"method", "ShardedOptimizer"}}, parameters_.described()};
    offer.problem = parameters_.problem();
    if (offer.problem.empty()) offer.problem = gradients_.problem();
    if (offer.problem.empty() && gradients_.sizes() != parameters_.sizes())
      offer.problem = "the gradients do not have the sizes of the parameters";
    name_ = "ShardedOptimizer." + std::to_string(detail::agree_settings("ShardedOptimizer", offer));
    for (int other = 0; other < rank(); ++other) begin_ += share_of(other);
    own_gradients_.resize(elements());
  }
  ShardedOptimizer(const ShardedOptimizer&) = delete;
  ShardedOptimizer& operator=(const ShardedOptimizer&) = delete;

  // Returns how many elements this rank's shard has.
  std::size_t elements() const { return share_of(rank()); }

  // Averages the gradients over the ranks, updates the shards, and gives all ranks the parameters.
  // A collective. It needs memory for one more copy of the parameters, which it keeps.
  void step() {
    const Tensors parameters = parameters_.tensors();
    flat_.resize(parameters_.total());
    detail::flatten(gradients_.tensors(), flat_);
    Options options(name_ + ".gradients");
    options.gradients = true;
    reducescatter(std::span<const float>(flat_), std::span(own_gradients_), Op::average, options);
    detail::flatten(parameters, flat_);
    std::vector<float> own = part_of(flat_);
    update_(own, own_gradients_);
    allgather(std::span<const float>(own), std::span(flat_), Options(name_ + ".parameters"));
    detail::unflatten(flat_, parameters);
  }

  // Returns the values of all ranks' shards, one for each element of the parameters: `own` is this
  // rank's momentum, for example. A collective, for checkpoints. Error, on all ranks: a rank has
  // not given elements() values.
  std::vector<float> gather(std::span<const float> own) const {
    std::vector<float> all(parameters_.total() + 1);  // a rank with too many is an error, too
    const std::vector<std::size_t> given =
        allgather(own, std::span(all), Options(name_ + ".gather"));
    for (int other = 0; other < size(); ++other) {
      const std::size_t count = given[static_cast<std::size_t>(other)];
      if (count != share_of(other))
        detail::refuse("hvd::ShardedOptimizer: rank " + std::to_string(other) + " gave " +
                       std::to_string(count) + " values, but its shard has " +
                       std::to_string(share_of(other)) + " elements");
    }
    all.pop_back();
    return all;
  }

  // Returns this rank's part of what gather() has returned, with any number of ranks. Error: it
  // does not have a value for each element of the parameters.
  std::vector<float> part_of(std::span<const float> all) const {
    if (all.size() != parameters_.total())
      detail::refuse("hvd::ShardedOptimizer: got " + std::to_string(all.size()) +
                     " values for parameters of " + std::to_string(parameters_.total()) +
                     " elements");
    const auto own = all.subspan(begin_, elements());
    return {own.begin(), own.end()};
  }

 private:
  // Returns how many elements a rank's shard has, as hvd_reducescatter divides them.
  std::size_t share_of(int other) const {
    const auto ranks = static_cast<std::size_t>(size());
    const std::size_t total = parameters_.total();
    return total / ranks + (static_cast<std::size_t>(other) < total % ranks ? 1 : 0);
  }

  detail::Model parameters_;
  detail::Model gradients_;
  ShardUpdate update_;
  std::string name_;
  std::size_t begin_ = 0;    // of this rank's shard
  std::vector<float> flat_;  // all gradients, then all parameters
  std::vector<float> own_gradients_;
};

}  // namespace hvd

#endif  // HVD_SHARDED_OPTIMIZER_HPP_
