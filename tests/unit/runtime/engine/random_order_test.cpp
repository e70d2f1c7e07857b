// Ranks submit tensors of random types and sizes in different orders. The results are compared with
// sums in int64 and in float64.
#include "submit.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace libhvd::test {
namespace {

struct Plan {
  hvd_type type;
  std::size_t count;
};

std::vector<Plan> make_plans(std::uint32_t seed, std::size_t count) {
  std::mt19937 random(seed);
  std::vector<Plan> plans;
  for (std::size_t i = 0; i < count; ++i) {
    const hvd_type type = random() % 3 == 0   ? HVD_INT64
                          : random() % 2 == 0 ? HVD_FLOAT64
                                              : HVD_INT32;
    const std::size_t most = random() % 10 == 0 ? 100'000 : 600;
    plans.push_back({type, random() % most});
  }
  return plans;
}

// Returns small whole numbers, so that float64 sums are exact.
std::int64_t value_of(int rank, std::size_t tensor, std::size_t i) {
  return static_cast<std::int64_t>((tensor * 31 + i * 7) % 1000) * (rank + 1);
}

struct Tensor {
  std::vector<std::byte> bytes;
  Plan plan;

  Tensor(const Plan& own, int rank, std::size_t number) : bytes(own.count * 8), plan(own) {
    for (std::size_t i = 0; i < own.count; ++i) set(i, value_of(rank, number, i));
  }
  void set(std::size_t i, std::int64_t value) {
    if (plan.type == HVD_INT64) {
      reinterpret_cast<std::int64_t*>(bytes.data())[i] = value;
    } else if (plan.type == HVD_INT32) {
      reinterpret_cast<std::int32_t*>(bytes.data())[i] = static_cast<std::int32_t>(value);
    } else {
      reinterpret_cast<double*>(bytes.data())[i] = static_cast<double>(value);
    }
  }
  std::int64_t get(std::size_t i) const {
    if (plan.type == HVD_INT64) return reinterpret_cast<const std::int64_t*>(bytes.data())[i];
    if (plan.type == HVD_INT32) return reinterpret_cast<const std::int32_t*>(bytes.data())[i];
    return static_cast<std::int64_t>(reinterpret_cast<const double*>(bytes.data())[i]);
  }

  Request request(std::size_t number) {
    Request made;
    made.kind = "allreduce";
    made.name = "t" + std::to_string(number);
    const AllreduceArguments own{bytes.data(), bytes.data(), plan.count, plan.type, HVD_SUM};
    made.allreduce = own;
    made.run = [own](Communicator& communicator, const CallOptions& options) {
      return communicator.allreduce(own.input, own.output, own.count, own.type, own.op, options);
    };
    return made;
  }
};

TEST(RandomOrder, SumsAreRight) {
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    const auto plans = make_plans(seed, 150);
    run_engines(3, [&](const Rank& rank) {
      std::vector<Tensor> tensors;
      for (std::size_t i = 0; i < plans.size(); ++i) tensors.emplace_back(plans[i], rank.rank, i);
      std::vector<std::size_t> order(plans.size());
      std::iota(order.begin(), order.end(), 0u);
      std::mt19937 random(seed * 100 + static_cast<std::uint32_t>(rank.rank));
      std::shuffle(order.begin(), order.end(), random);
      std::vector<std::int64_t> handles(plans.size());
      std::size_t waited = 0;
      for (std::size_t i = 0; i < order.size(); ++i) {
        handles[order[i]] = submit(rank, tensors[order[i]].request(order[i]));
        // Polls now and then a tensor that this rank has submitted earlier.
        if (random() % 20 == 0) {
          const auto done = rank.engine.done(handles[order[waited]]);
          ASSERT_TRUE(done.ok());
          waited += *done && waited < i ? 1 : 0;
        }
      }
      for (std::size_t i = 0; i < plans.size(); ++i)
        ASSERT_EQ(message_of(rank.engine.wait(handles[i])), "");
      const std::int64_t factor = rank.size * (rank.size + 1) / 2;
      for (std::size_t i = 0; i < plans.size(); ++i) {
        for (std::size_t k = 0; k < plans[i].count; ++k)
          ASSERT_EQ(tensors[i].get(k), value_of(0, i, k) * factor)
              << "seed " << seed << ", tensor " << i << ", element " << k;
      }
    });
  }
}

}  // namespace
}  // namespace libhvd::test
