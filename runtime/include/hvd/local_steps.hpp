// Training methods whose ranks take steps of their own, and exchange parameters every few steps:
// LocalSGD, DiLoCo and Gossip. A part of methods.hpp, which shows the use.
//
// An object belongs to one thread. Between exchanges no rank waits for another. The constructors,
// synchronize(), state() and load() are collectives: all ranks call them. Errors are hvd::Error; an
// exchange that failed has changed no parameter, and the next period begins.
//
// A rank in hvd::join() is not waited for, and the averages are those of the other ranks. It gets
// their parameters by hvd::broadcast() from the rank that joined last.
#ifndef HVD_LOCAL_STEPS_HPP_
#define HVD_LOCAL_STEPS_HPP_

#include "hvd/periodic_method.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hvd {
namespace detail {

// Returns the one rank with which `rank` exchanges in Gossip's exchange of this number; nullopt if
// it pauses. The distances are 1, 2, 4, ... below `size`, one after the other. If `size` is no
// power of two, some ranks pause; the ring turns after each round, so that they are others each
// time.
inline std::optional<int> gossip_partner(int rank, int size, std::int64_t exchange) {
  int distances = 0;
  while (1LL << distances < size) ++distances;
  if (distances == 0) return std::nullopt;
  const std::int64_t round = exchange / distances;
  const int distance = 1 << (exchange % distances);
  const bool power_of_two = (size & (size - 1)) == 0;
  const int turn = power_of_two ? 0 : static_cast<int>(round % size);
  const int place = (rank - turn + size) % size;
  const int other = place / distance % 2 == 0 ? place + distance : place - distance;
  if (other >= size) return std::nullopt;
  return (other + turn) % size;
}

// Returns all pairs of ranks that gossip_partner() ever makes, each with the lower rank first.
inline std::set<std::pair<int, int>> gossip_pairs(int size) {
  std::set<std::pair<int, int>> pairs;
  int distances = 0;
  while (1LL << distances < size) ++distances;
  const std::int64_t rounds = (size & (size - 1)) == 0 ? 1 : size;
  for (std::int64_t exchange = 0; exchange < rounds * distances; ++exchange)
    for (int rank = 0; rank < size; ++rank)
      if (const auto other = gossip_partner(rank, size, exchange))
        pairs.insert({std::min(rank, *other), std::max(rank, *other)});
  return pairs;
}

}  // namespace detail

// Options of LocalSGD. All ranks give the same.
struct LocalSGDOptions {
  std::int64_t every = 1;   // steps of a period, 1 or more
  bool background = false;  // an average is computed while the next period trains
  Compression compression = Compression::none;  // of the parameters, but not by synchronize()
};

// Averages the parameters of all ranks after every `every` steps. S. U. Stich, "Local SGD Converges
// Fast and Communicates Little", arXiv:1805.09767. Ranks send 1/every of the bytes of an allreduce
// in each step. The optimizer's state stays the rank's own.
//
// At the end of a period a rank waits until all have ended it. In the background it waits until all
// have ended the period before: its parameters become that average plus its own changes since. S.
// Shen et al., "Faster Distributed Deep Net Training: Computation and Communication Decoupled
// Stochastic Gradient Descent", arXiv:1906.12043.
class LocalSGD : public detail::AveragingMethod {
 public:
  // A collective. `parameters`: tensors of float in host memory, with the same names and shapes on
  // all ranks. Errors, on all ranks: `every` is below 1; settings or parameters differ.
  explicit LocalSGD(const State& parameters, const LocalSGDOptions& options = {})
      : AveragingMethod("LocalSGD", parameters,
                        {options.every, options.background, options.compression}) {}

 private:
  std::unique_ptr<detail::Mean> mean(const Tensors& tensors, std::int64_t) override {
    return std::make_unique<detail::Mean>(tensors, name(), ProcessSet(), compression());
  }
};

// Options of Gossip. All ranks give the same.
struct GossipOptions {
  std::int64_t every = 1;   // steps of a period, 1 or more
  bool background = false;  // as for LocalSGD
};

// Averages the parameters with one other rank after every `every` steps, at a distance of 1, 2, 4,
// ... in turn. X. Lian et al., "Asynchronous Decentralized Parallel Stochastic Gradient Descent",
// arXiv:1710.06952; B. Ying et al., "Exponential Graph is Provably Efficient for Decentralized Deep
// Training", arXiv:2110.13363. If the number of ranks is no power of two, some ranks pause in each
// exchange. The ranks' parameters stay different until synchronize().
//
// A rank waits for its partner only. Each pair is a process set, which the constructor makes.
class Gossip : public detail::AveragingMethod {
 public:
  // A collective; parameters and errors are as for LocalSGD.
  explicit Gossip(const State& parameters, const GossipOptions& options = {})
      : AveragingMethod("Gossip", parameters, {options.every, options.background}) {
    sets_.resize(static_cast<std::size_t>(size()));
    for (const auto& [low, high] : detail::gossip_pairs(size())) {
      const ProcessSet pair = detail::find_or_add({low, high});
      if (low == rank()) sets_[static_cast<std::size_t>(high)] = pair;
      if (high == rank()) sets_[static_cast<std::size_t>(low)] = pair;
    }
  }

 private:
  std::unique_ptr<detail::Mean> mean(const Tensors& tensors, std::int64_t exchange) override {
    const auto partner = detail::gossip_partner(rank(), size(), exchange);
    if (!partner) return nullptr;
    return std::make_unique<detail::Mean>(tensors, name(),
                                          sets_[static_cast<std::size_t>(*partner)]);
  }

  std::vector<ProcessSet> sets_;  // by the partner's rank
};

// Options of DiLoCo. All ranks give the same.
struct DiLoCoOptions {
  std::int64_t every = 32;                      // steps of a period, 1 or more
  float rate = 0.7F;                            // of the outer optimizer; more than 0
  float momentum = 0.9F;                        // of the outer optimizer; 0 to below 1
  bool background = false;                      // as for LocalSGD
  Compression compression = Compression::none;  // of the changes
};

// Each rank takes `every` steps. Then an outer optimizer with Nesterov momentum takes a step with
// the average of the ranks' changes, and all continue from its result. A. Douillard et al.,
// "DiLoCo: Distributed Low-Communication Training of Language Models", arXiv:2311.08105; the
// defaults are the paper's. With rate 1 and momentum 0 it is LocalSGD. In the background the outer
// step is one period late (S. Kale et al., arXiv:2502.12996); use a smaller rate or momentum then.
class DiLoCo : public detail::PeriodicMethod {
 public:
  // A collective. Gives all ranks rank 0's parameters; so load a model before. Parameters and
  // errors are as for LocalSGD.
  explicit DiLoCo(const State& parameters, const DiLoCoOptions& options = {})
      : PeriodicMethod("DiLoCo", parameters,
                       {options.every,
                        options.background,
                        options.compression,
                        {{"outer", "rate " + std::to_string(options.rate) + ", momentum " +
                                       std::to_string(options.momentum)}},
                        problem_of(options)}),
        rate_(options.rate),
        momentum_(options.momentum) {
    begin_with_rank0();
  }

 private:
  static std::string problem_of(const DiLoCoOptions& options) {
    if (!(options.rate > 0 && std::isfinite(options.rate)))
      return "rate is " + std::to_string(options.rate) + ", but must be more than 0";
    if (!(options.momentum >= 0 && options.momentum < 1))
      return "momentum is " + std::to_string(options.momentum) + ", but must be 0 to below 1";
    return "";
  }

  void start_over() override { begin_with_rank0(); }

  void begin_with_rank0() {
    const Tensors parameters = model().tensors();
    base_ = detail::flattened(parameters, model().total());
    broadcast(std::span(base_), 0, name() + ".begin");
    detail::unflatten(base_, parameters);
    velocity_.assign(base_.size(), 0);
  }

  std::optional<detail::Exchange> begin(std::optional<std::int64_t>, bool copy) override {
    detail::Exchange made;
    const Tensors parameters = model().tensors();
    if (copy) made.start = detail::flattened(parameters, model().total());
    made.means = detail::flattened(parameters, model().total());
    for (std::size_t i = 0; i < base_.size(); ++i) made.means[i] = base_[i] - made.means[i];
    made.running = std::make_unique<detail::Mean>(detail::parts_of(made.means, model().sizes()),
                                                  name(), ProcessSet(), compression());
    return made;
  }

  void change(const detail::Exchange& exchange) override {
    std::size_t i = 0;
    for (const std::span<float>& tensor : model().tensors()) {
      for (float& value : tensor) {
        const float since = exchange.start.empty() ? 0 : value - exchange.start[i];
        const float gradient = exchange.means[i];
        velocity_[i] = momentum_ * velocity_[i] + gradient;
        base_[i] -= rate_ * (gradient + momentum_ * velocity_[i]);
        value = base_[i] + since;
        ++i;
      }
    }
  }

  std::vector<float> shared() const override {
    std::vector<float> both = base_;
    both.insert(both.end(), velocity_.begin(), velocity_.end());
    return both;
  }

  void load_shared(const std::vector<float>& both) override {
    const auto middle = both.begin() + static_cast<std::ptrdiff_t>(model().total());
    base_.assign(both.begin(), middle);
    velocity_.assign(middle, both.end());
  }

  float rate_, momentum_;
  std::vector<float> base_;      // the outer optimizer's parameters: the same on all ranks
  std::vector<float> velocity_;  // and its momentum
};

}  // namespace hvd

#endif  // HVD_LOCAL_STEPS_HPP_
