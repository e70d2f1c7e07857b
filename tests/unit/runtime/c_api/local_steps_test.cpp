// LocalSGD, DiLoCo and Gossip of hvd/methods.hpp, with ranks as processes. Each rank trains a small
// model of its own; a simulation of all ranks in one process gives the expected parameters.
#include "methods_support.hpp"
#include "support.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace libhvd::test {
namespace {

// A model of two tensors, trained with momentum by gradients that differ between ranks.
struct SmallModel {
  Values weights = {0.5F, -1, 2, 0.25F, 1}, bias = {3, -2, 0.125F};
  Values velocity = Values(8);

  hvd::State parameters() { return named("weights", weights, "bias", bias); }
  hvd::State momentum() { return named("velocity", velocity); }

  void take_step(int rank, int step) {
    std::size_t i = 0;
    for (Values* tensor : {&weights, &bias}) {
      for (float& value : *tensor) {
        const float target =
            std::sin(static_cast<float>(7 * rank + 3 * step) + static_cast<float>(i));
        velocity[i] = 0.5F * velocity[i] + (value - target);
        value -= 0.1F * velocity[i];
        ++i;
      }
    }
  }

  Values flat() const {
    Values all = weights;
    all.insert(all.end(), bias.begin(), bias.end());
    return all;
  }
  void put(const Values& all) {
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(weights.size());
    weights.assign(all.begin(), middle);
    bias.assign(middle, all.end());
  }
};

// Calls fn(i) for each element, and returns the results.
Values each(std::size_t count, const std::function<double(std::size_t)>& fn) {
  Values made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = static_cast<float>(fn(i));
  return made;
}

Values average(const std::vector<Values>& all) {
  return each(all[0].size(), [&](std::size_t i) {
    double sum = 0;
    for (const Values& values : all) sum += values[i];
    return sum / static_cast<double>(all.size());
  });
}

// Changes the parameters of all ranks at the end of a period. Periods are numbered from 0.
using Rule = std::function<void(std::vector<Values>& parameters, int period)>;

// Returns the parameters of `rank` after the steps of all ranks, in this process.
Values simulated(int size, int rank, int steps, int every, const Rule& rule) {
  std::vector<SmallModel> models(static_cast<std::size_t>(size));
  for (int step = 0; step < steps; ++step) {
    for (int r = 0; r < size; ++r) models[static_cast<std::size_t>(r)].take_step(r, step);
    if ((step + 1) % every != 0) continue;
    std::vector<Values> all;
    for (const SmallModel& model : models) all.push_back(model.flat());
    rule(all, step / every);
    for (std::size_t r = 0; r < models.size(); ++r) models[r].put(all[r]);
  }
  return models[static_cast<std::size_t>(rank)].flat();
}

// A rule that applies averages one period late. `apply` gets the average of the last period's
// changes, and returns the new common parameters.
Rule one_period_late(std::function<Values(const Values&)> apply) {
  return [apply, begin = std::vector<Values>(), changes = std::vector<Values>()](
             std::vector<Values>& all, int) mutable {
    if (begin.empty()) begin.assign(all.size(), SmallModel().flat());
    std::vector<Values> now(all.size());
    for (std::size_t r = 0; r < all.size(); ++r)
      now[r] = each(all[r].size(), [&](std::size_t i) { return all[r][i] - begin[r][i]; });
    if (!changes.empty()) {
      const Values common = apply(average(changes));
      for (std::size_t r = 0; r < all.size(); ++r)
        all[r] = each(all[r].size(), [&](std::size_t i) { return common[i] + now[r][i]; });
    }
    begin = all;
    changes = now;
  };
}

// The outer optimizer of DiLoCo. Takes the average of the changes, returns the new parameters.
std::function<Values(const Values&)> nesterov(double rate, double momentum) {
  return [=, base = SmallModel().flat(), velocity = Values(8)](const Values& change) mutable {
    for (std::size_t i = 0; i < base.size(); ++i) {
      velocity[i] = static_cast<float>(momentum * velocity[i] - change[i]);
      base[i] -= static_cast<float>(rate * (-change[i] + momentum * velocity[i]));
    }
    return base;
  };
}

template <class Method>
void train(SmallModel& model, Method& method, int begin, int end) {
  for (int step = begin; step < end; ++step) {
    model.take_step(hvd::rank(), step);
    method.step();
  }
}

class LocalSteps : public testing::TestWithParam<int> {};  // the number of ranks
INSTANTIATE_TEST_SUITE_P(Ranks, LocalSteps, testing::Values(2, 3));

TEST_P(LocalSteps, PeriodsOfOneStepEqualAnAllreduceInEachStep) {
  expect_right(GetParam(), [](int rank) -> std::string {
    SmallModel model, other;
    hvd::LocalSGD method(model.parameters());
    for (int step = 0; step < 9; ++step) {
      model.take_step(rank, step);
      method.step();
      other.take_step(rank, step);
      hvd::allreduce(std::span(other.weights), hvd::Op::average);
      hvd::allreduce(std::span(other.bias), hvd::Op::average);
      if (model.flat() != other.flat()) return "step " + std::to_string(step);
    }
    return "";
  });
}

TEST_P(LocalSteps, LocalSgdAveragesAtTheEndOfEachPeriod) {
  expect_right(GetParam(), [size = GetParam()](int rank) -> std::string {
    for (const int every : {2, 4}) {
      SmallModel model;
      hvd::LocalSGD method(model.parameters(), {.every = every});
      train(model, method, 0, 9);
      const auto rule = [](std::vector<Values>& all, int) { all.assign(all.size(), average(all)); };
      require_near(model.flat(), simulated(size, rank, 9, every, rule), "every");
    }
    return "";
  });
}

TEST_P(LocalSteps, LocalSgdInTheBackgroundIsOnePeriodLate) {
  expect_right(GetParam(), [size = GetParam()](int rank) -> std::string {
    for (const int every : {1, 3}) {
      SmallModel model;
      hvd::LocalSGD method(model.parameters(), {.every = every, .background = true});
      train(model, method, 0, 11);
      require_near(model.flat(), simulated(size, rank, 11, every, one_period_late(nesterov(1, 0))),
                   "background");
    }
    return "";
  });
}

TEST_P(LocalSteps, DiLoCoTakesAnOuterStepWithNesterovMomentum) {
  expect_right(GetParam(), [size = GetParam()](int rank) -> std::string {
    for (const bool background : {false, true}) {
      SmallModel model;
      if (rank > 0) model.weights[0] = 77;  // all begin with rank 0's parameters
      hvd::DiLoCo method(model.parameters(),
                         {.every = 3, .rate = 0.5F, .momentum = 0.75F, .background = background});
      require_near(model.flat(), SmallModel().flat(), "the begin");
      train(model, method, 0, 13);
      auto outer = nesterov(0.5, 0.75);
      Rule rule = [base = SmallModel().flat(), &outer](std::vector<Values>& all, int) mutable {
        const Values mean = average(all);
        base = outer(each(mean.size(), [&](std::size_t i) { return mean[i] - base[i]; }));
        all.assign(all.size(), base);
      };
      if (background) rule = one_period_late(outer);
      require_near(model.flat(), simulated(size, rank, 13, 3, rule), "DiLoCo");
    }
    return "";
  });
}

// The partners in the exponential ring, written by hand; -1: none.
TEST(Gossip, PairsEachRankWithAtMostOnePartner) {
  const std::vector<std::vector<int>> of_three = {{1, 0, -1}, {2, -1, 0}, {-1, 2, 1},
                                                  {1, 0, -1}, {2, -1, 0}, {-1, 2, 1}};
  const std::vector<std::vector<int>> of_four = {{1, 0, 3, 2}, {2, 3, 0, 1}, {1, 0, 3, 2}};
  for (std::size_t exchange = 0; exchange < of_four.size(); ++exchange)
    for (int rank = 0; rank < 4; ++rank)
      EXPECT_EQ(hvd::detail::gossip_partner(rank, 4, static_cast<int>(exchange)).value_or(-1),
                of_four[exchange][static_cast<std::size_t>(rank)]);
  EXPECT_EQ(hvd::detail::gossip_partner(0, 1, 0), std::nullopt);
  for (int size = 2; size <= 9; ++size) {
    const auto pairs = hvd::detail::gossip_pairs(size);
    std::vector<int> exchanges(static_cast<std::size_t>(size));
    for (int exchange = 0; exchange < 100; ++exchange) {
      for (int rank = 0; rank < size; ++rank) {
        const auto partner = hvd::detail::gossip_partner(rank, size, exchange);
        if (!partner) continue;
        EXPECT_EQ(hvd::detail::gossip_partner(*partner, size, exchange), rank);
        EXPECT_TRUE(pairs.count({std::min(rank, *partner), std::max(rank, *partner)}));
        ++exchanges[static_cast<std::size_t>(rank)];
      }
    }
    for (const int count : exchanges) EXPECT_GE(count, 40) << size << " ranks";
  }
}

TEST_P(LocalSteps, GossipAveragesWithOnePartner) {
  expect_right(GetParam(), [size = GetParam()](int rank) -> std::string {
    SmallModel model;
    hvd::Gossip method(model.parameters(), {.every = 2});
    hvd::Gossip again(model.parameters());  // uses the same process sets
    train(model, method, 0, 11);
    const Rule rule = [size](std::vector<Values>& all, int period) {
      const std::vector<Values> before = all;
      for (int r = 0; r < size; ++r) {
        const auto partner = hvd::detail::gossip_partner(r, size, period);
        if (!partner) continue;
        all[static_cast<std::size_t>(r)] = average(
            {before[static_cast<std::size_t>(r)], before[static_cast<std::size_t>(*partner)]});
      }
    };
    require_near(model.flat(), simulated(size, rank, 11, 2, rule), "Gossip");
    method.synchronize();
    require_alike(model.flat(), "synchronize");
    return "";
  });
}

TEST(Gossip, TwoExchangesOfFourRanksGiveTheAverage) {
  expect_right(4, [](int rank) -> std::string {
    for (const bool background : {false, true}) {
      Values values{static_cast<float>(rank), static_cast<float>(-4 * rank)};
      hvd::Gossip method(named("values", values), {.every = 1, .background = background});
      for (int step = 0; step < (background ? 3 : 2); ++step) method.step();
      if (values != Values{1.5F, -6}) return background ? "background" : "foreground";
    }
    return "";
  });
}

TEST_P(LocalSteps, SynchronizeEndsAPeriodEarly) {
  expect_right(GetParam(), [](int) -> std::string {
    for (const bool background : {false, true}) {
      SmallModel model, outer;
      hvd::LocalSGD method(model.parameters(), {.every = 4, .background = background});
      hvd::DiLoCo diloco(outer.parameters(), {.every = 4, .background = background});
      train(model, method, 0, 6);
      train(outer, diloco, 0, 6);
      method.synchronize();
      diloco.synchronize();
      require_alike(model.flat(), "LocalSGD");
      require_alike(outer.flat(), "DiLoCo");
      // Three steps of a new period of four.
      train(model, method, 6, 9);
      Values lowest = model.flat();
      hvd::allreduce(std::span(lowest), hvd::Op::min);
      const bool lowest_here = lowest == model.flat();
      if (hvd::allreduce(lowest_here ? 1 : 0, hvd::Op::min) != 0) return "the ranks still agree";
    }
    return "";
  });
}

// Rank 0 takes all steps that need no other rank before rank 1 takes its first.
TEST_P(LocalSteps, NoRankWaitsWithinAPeriod) {
  for (const bool background : {false, true}) {
    Signal go;
    const int ahead = background ? 7 : 3;
    expect_right(GetParam(), [&](int rank) -> std::string {
      SmallModel model;
      hvd::LocalSGD method(model.parameters(), {.every = 4, .background = background});
      if (rank == 0) {
        train(model, method, 0, ahead);
        go.notify();
      }
      if (rank == 1) go.await();
      hvd::barrier();
      train(model, method, rank == 0 ? ahead : 0, 8);
      method.synchronize();
      require_alike(model.flat(), "at the end");
      return "";
    });
  }
}

TEST_P(LocalSteps, ARankThatJoinsIsNotInTheAverage) {
  expect_right(GetParam(), [size = GetParam()](int rank) -> std::string {
    for (const bool background : {false, true}) {
      Values values{static_cast<float>(rank + 1)};
      hvd::LocalSGD method(named("values", values), {.every = 2, .background = background});
      if (rank < size - 1) {
        for (int step = 0; step < 4; ++step) method.step();
        require_near(values, {static_cast<float>(size) / 2}, "the average of the others");
      }
      hvd::join();
    }
    return "";
  });
}

TEST_P(LocalSteps, CompressionRoundsDataBetweenHosts) {
  std::vector<int> hosts{0, 1, 1};
  hosts.resize(static_cast<std::size_t>(GetParam()));
  expect_right_on(hosts, [size = GetParam()](int rank) -> std::string {
    constexpr std::size_t kMany = 100'000;  // smaller messages are not compressed
    const auto mine = [](int r) {
      return each(kMany, [=](std::size_t i) { return std::cos(static_cast<double>(i) + r); });
    };
    Values values = mine(rank);
    hvd::LocalSGD method(named("values", values), {.compression = hvd::Compression::float16});
    method.step();
    std::vector<Values> all;
    for (int r = 0; r < size; ++r) all.push_back(mine(r));
    const Values exact = average(all);
    double error = 0;
    for (std::size_t i = 0; i < kMany; ++i)
      error = std::max(error, std::abs(static_cast<double>(values[i]) - exact[i]));
    require(error > 1e-5 && error < 2e-3, "the error is " + std::to_string(error));
    values = mine(rank);
    method.synchronize();  // sends all bits
    require_near(values, exact, "synchronize");
    return "";
  });
}

// ---- Checkpoints --------------------------------------------------------------------------------

// Trains, saves a checkpoint, and continues. Another model and method continue from the checkpoint:
// the parameters must have the same bits.
template <class Method, class Options>
void continues_from_a_checkpoint(const std::string& folder, const Options& options, int before) {
  const auto all_of = [](SmallModel& model, std::string& method) {
    return named("weights", model.weights, "bias", model.bias, "method", method);
  };
  SmallModel model;
  Method method(model.parameters(), options);
  train(model, method, 0, before);
  std::string bytes = method.state(model.momentum());
  {
    hvd::Checkpoints checkpoints(folder);
    checkpoints.save(all_of(model, bytes), static_cast<std::uint64_t>(before));
    checkpoints.wait();
  }
  train(model, method, before, before + 9);

  SmallModel again;
  again.weights.assign(5, 9);
  Method continued(again.parameters(), options);
  std::string loaded;
  hvd::State state = all_of(again, loaded);
  hvd::Checkpoints checkpoints(folder);
  require(checkpoints.load(state).has_value(), "no checkpoint");
  continued.load(loaded, again.momentum());
  train(again, continued, before, before + 9);
  require(again.flat() == model.flat(), "after " + std::to_string(before) + " steps");
}

TEST_P(LocalSteps, TrainingContinuesFromACheckpointWithinAPeriod) {
  const TemporaryFolder folder;
  expect_right(GetParam(), [&](int) -> std::string {
    int number = 0;
    const auto next = [&] { return folder.file(std::to_string(number++)); };
    for (const bool background : {false, true}) {
      for (const int before : {2, 7}) {  // 7: an exchange is in flight
        continues_from_a_checkpoint<hvd::LocalSGD>(
            next(), hvd::LocalSGDOptions{.every = 3, .background = background}, before);
        continues_from_a_checkpoint<hvd::DiLoCo>(
            next(), hvd::DiLoCoOptions{.every = 3, .background = background}, before);
        continues_from_a_checkpoint<hvd::Gossip>(
            next(), hvd::GossipOptions{.every = 3, .background = background}, before);
      }
    }
    return "";
  });
}

TEST(LocalStepsState, AnotherNumberOfRanksBeginsWithTheAverage) {
  const TemporaryFolder folder;
  const auto trained = [&](int size, bool load) {
    expect_right(size, [&](int rank) -> std::string {
      Values values{static_cast<float>(rank), 1};
      std::int64_t own = rank + 10;
      hvd::State mine = named("own", own);
      hvd::LocalSGD method(named("values", values), {.every = 3});
      std::string bytes;
      hvd::State state = named("method", bytes);
      hvd::Checkpoints checkpoints(folder.file("c"));
      if (!load) {
        method.step();
        bytes = method.state(mine);
        checkpoints.save(state, 1);
        checkpoints.wait();
        return "";
      }
      checkpoints.load(state);
      method.load(bytes, mine);
      if (values != Values{1, 1}) return "the parameters";
      if (own != rank % 3 + 10) return "the rank's own";
      values[0] = static_cast<float>(rank);
      method.step();
      if (values[0] != static_cast<float>(rank)) return "a step within the period";
      method.step();
      return values[0] == static_cast<float>(hvd::size() - 1) / 2 ? "" : "no exchange";
    });
  };
  trained(3, false);
  trained(2, true);
  trained(4, true);
}

TEST_P(LocalSteps, RefusesStatesOfOtherSettings) {
  expect_right(GetParam(), [](int) -> std::string {
    SmallModel model;
    hvd::LocalSGD method(model.parameters(), {.every = 3});
    train(model, method, 0, 4);
    const std::string saved = method.state();
    const Values before = model.flat();
    const auto refused = [&](hvd::detail::PeriodicMethod& other, const std::string& bytes,
                             const std::string& text) {
      require_error([&] { other.load(bytes); }, text);
      require(model.flat() == before, "changed by a load that was refused");
    };
    hvd::LocalSGD shorter(model.parameters(), {.every = 2});
    refused(shorter, saved,
            "hvd::LocalSGD: the state was saved with every = 3, but here every = 2");
    hvd::Gossip gossip(model.parameters(), {.every = 3});
    refused(gossip, saved, "hvd::Gossip: the state was saved with method = LocalSGD");
    hvd::LocalSGD later(model.parameters(), {.every = 3, .background = true});
    refused(later, saved, "background = false, but here background = true");
    SmallModel longer;
    longer.bias.push_back(1);
    hvd::LocalSGD of_another(longer.parameters(), {.every = 3});
    refused(of_another, saved, "the parameter bias = float32 of shape [3]");
    refused(method, saved.substr(0, saved.size() - 5), "cut short");
    const std::string with_own = method.state(model.momentum());
    refused(method, with_own, "other variables of each rank");
    // load("") begins a new period.
    method.load("");
    const Values old = model.flat();
    method.step();
    method.step();
    return model.flat() == old ? "" : "the period did not begin";
  });
}

// ---- Settings that differ -----------------------------------------------------------------------

TEST_P(LocalSteps, DifferentSettingsOrParametersFailOnEveryRank) {
  expect_right(GetParam(), [size = GetParam()](int rank) -> std::string {
    const bool last = rank == size - 1;
    const std::string last_rank = " on rank " + std::to_string(size - 1);
    SmallModel model;
    require_error([&] { hvd::LocalSGD(model.parameters(), {.every = last ? 4 : 8}); },
                  size == 2 ? "hvd::LocalSGD: every differs between ranks: 8 on rank 0; 4 on rank 1"
                            : "8 on ranks 0, 1; 4 on rank 2; give all ranks the same");
    require_error([&] { hvd::Gossip(model.parameters(), {.every = last ? -3 : 8}); },
                  "hvd::Gossip: every is -3, but must be at least 1 (" + last_rank.substr(1) + ")");
    require_error([&] { hvd::LocalSGD(model.parameters(), {.background = last}); },
                  "background differs between ranks: false on rank");
    require_error([&] { hvd::DiLoCo(model.parameters(), {.rate = last ? 0.5F : 1.0F}); },
                  "outer differs between ranks: rate 1.000000");
    require_error([&] { hvd::DiLoCo(model.parameters(), {.rate = last ? NAN : 1.0F}); },
                  "rate is nan, but must be more than 0 (" + last_rank.substr(1) + ")");
    require_error([&] { hvd::DiLoCo(model.parameters(), {.momentum = 1}); },
                  "momentum is 1.000000");
    require_error(
        [&] {
          const auto form = last ? hvd::Compression::int8 : hvd::Compression::none;
          hvd::LocalSGD(model.parameters(), {.compression = form});
        },
        "compression differs between ranks");
    Values head(2);
    hvd::State more = model.parameters();
    if (rank == 0) more.add("head", head);
    require_error([&] { hvd::LocalSGD{more}; },
                  "only rank 0 of " + std::to_string(size) + " has the parameter head");
    SmallModel other;
    if (last) other.weights.resize(7);
    require_error([&] { hvd::DiLoCo(other.parameters()); },
                  "the parameter weights differs between ranks: float32 of shape [5] on rank");
    hvd::State swapped;
    if (last) swapped.add("bias", model.bias);
    swapped.add("weights", model.weights);
    if (!last) swapped.add("bias", model.bias);
    require_error([&] { hvd::LocalSGD{swapped}; }, "the same parameters in another order");
    double epoch = 0;
    hvd::State no_floats = model.parameters();
    if (last) no_floats.add("epoch", epoch);
    require_error([&] { hvd::LocalSGD{no_floats}; },
                  "the parameter epoch does not have the type float (" + last_rank.substr(1));
    require_error([&] { hvd::LocalSGD{hvd::State()}; }, "there are no parameters");
    hvd::LocalSGD method(model.parameters());
    model.bias.push_back(1);
    require_error([&] { method.step(); }, "the parameter bias has changed its size");
    return "";
  });
}

}  // namespace
}  // namespace libhvd::test
