// Results of Adasum against the paper's formula, which is computed pair by pair in long double.
#include "collective/communicator.hpp"
#include "collective/group.hpp"
#include "engine/fusion.hpp"
#include "hvd/hvd.hpp"
#include "support.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace libhvd::test {
namespace {

// The compiler of the POWER wheel lacks the functions of its long double.
#if defined(__powerpc64__)
using Widest = double;
#else
using Widest = long double;
#endif
using Values = std::vector<Widest>;

// Returns a number between -1 and 1 that depends on the rank and the index.
template <class T>
T value_of(int rank, std::size_t i) {
  const auto bits = static_cast<std::uint32_t>(i + 1) * 2654435761u ^
                    static_cast<std::uint32_t>(rank + 1) * 2246822519u;
  return T(static_cast<float>(bits >> 8) / 8388608.0f - 1.0f);
}

template <class T>
std::vector<T> values_of(int rank, std::size_t first, std::size_t count) {
  std::vector<T> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(value_of<T>(rank, first + i));
  return values;
}

template <class T>
Widest widen(T value) {
  if constexpr (sizeof(T) == 2)
    return static_cast<float>(value);
  else
    return value;
}

Values add(const Values& a, const Values& b) {
  const Widest both = std::inner_product(a.begin(), a.end(), b.begin(), Widest{0});
  const Widest of_a = std::inner_product(a.begin(), a.end(), a.begin(), Widest{0});
  const Widest of_b = std::inner_product(b.begin(), b.end(), b.begin(), Widest{0});
  Values sum(a.size());
  for (std::size_t i = 0; i < sum.size(); ++i)
    sum[i] = (1 - both / (2 * of_a)) * a[i] + (1 - both / (2 * of_b)) * b[i];
  return sum;
}

template <class T>
Values expected(int ranks, std::size_t first, std::size_t count) {
  std::vector<Values> level(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    for (const T value : values_of<T>(rank, first, count))
      level[static_cast<std::size_t>(rank)].push_back(widen(value));
  }
  for (; level.size() > 1; level.resize(level.size() / 2)) {
    for (std::size_t i = 0; i < level.size() / 2; ++i)
      level[i] = add(level[2 * i], level[2 * i + 1]);
  }
  return level.front();
}

template <class T>
void expect_near(const std::vector<T>& got, const Values& wanted, Widest tolerance,
                 const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size());
  Widest worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::abs(widen(got[i]) - wanted[i]));
  EXPECT_LE(worst, tolerance) << what;
}

template <class T>
void expect_formula(Widest tolerance) {
  for (const int ranks : {1, 2, 4}) {
    for (const std::size_t count : {1u, 3u, 1'000u, 5'001u}) {
      const Values wanted = expected<T>(ranks, 0, count);
      run_ranks_everywhere(ranks, [&](Communicator& communicator) {
        std::vector<T> values = values_of<T>(communicator.rank(), 0, count);
        ASSERT_EQ(text_of(communicator.allreduce(values.data(), values.data(), count,
                                                 hvd::detail::find_type<T>(), HVD_ADASUM, {})),
                  "ok");
        expect_near(values, wanted, tolerance,
                    std::to_string(ranks) + " ranks, " + std::to_string(count));
      });
    }
  }
}

// Only the final rounding to the type may lose precision.
TEST(Adasum, MatchesThePapersFormulaForEveryType) {
  expect_formula<double>(1e-14);
  expect_formula<float>(4e-7);
  expect_formula<hvd::float16>(2e-3);
  expect_formula<hvd::bfloat16>(1.6e-2);
}

TEST(Adasum, AddsOrthogonalVectorsAndAveragesEqualOnes) {
  run_ranks_everywhere(4, [](Communicator& communicator) {
    const auto reduced = [&](std::vector<double> values, Scale scale = {}) {
      EXPECT_EQ(text_of(communicator.allreduce(values.data(), values.data(), values.size(),
                                               HVD_FLOAT64, HVD_ADASUM, {.scale = scale})),
                "ok");
      return values;
    };
    std::vector<double> own(4, 0);
    own[static_cast<std::size_t>(communicator.rank())] = 3;
    EXPECT_EQ(reduced(own), std::vector<double>(4, 3));
    EXPECT_EQ(reduced({1, 2}), (std::vector<double>{1, 2}));
    EXPECT_EQ(reduced({1, 2}, {2, 5}), (std::vector<double>{10, 20}));
    EXPECT_EQ(reduced({0, 0}), (std::vector<double>{0, 0}));
    const double sign = communicator.rank() % 2 == 0 ? 1 : -1;
    EXPECT_EQ(reduced({sign, sign}), (std::vector<double>{0, 0})) << "opposite vectors cancel";
    const double first = communicator.rank() == 0 ? 1 : 0;
    EXPECT_EQ(reduced({first, first}), (std::vector<double>{1, 1})) << "only rank 0 has values";
    const double large = std::numeric_limits<float>::max();
    std::vector<float> most(2, static_cast<float>(large));
    EXPECT_EQ(
        text_of(communicator.allreduce(most.data(), most.data(), 2, HVD_FLOAT32, HVD_ADASUM, {})),
        "ok");
    EXPECT_EQ(most, std::vector<float>(2, static_cast<float>(large)));
  });
}

// Some tensors are packed into one call; the long one is reduced by itself.
TEST(Adasum, ReducesEachTensorOfAGroupSeparately) {
  constexpr std::array<std::size_t, 4> kLengths{3, 700, 1, 9'000};
  std::vector<Values> wanted;
  std::size_t first = 0;
  for (const std::size_t count : kLengths) {
    wanted.push_back(expected<double>(2, first, count));
    first += count;
  }
  run_ranks_everywhere(2, [&](Communicator& communicator) {
    std::vector<std::vector<double>> tensors;
    AllreduceGroup group;
    group.type = HVD_FLOAT64;
    group.op = HVD_ADASUM;
    std::size_t begin = 0;
    for (const std::size_t count : kLengths) {
      tensors.push_back(values_of<double>(communicator.rank(), begin, count));
      begin += count;
    }
    for (auto& tensor : tensors) {
      group.inputs.push_back(tensor.data());
      group.outputs.push_back(tensor.data());
      group.lengths.push_back(tensor.size());
    }
    ASSERT_EQ(text_of(allreduce_group(communicator, group, {.name = "g"})), "ok");
    for (std::size_t i = 0; i < tensors.size(); ++i)
      expect_near(tensors[i], wanted[i], 1e-14, "tensor " + std::to_string(i));
  });
}

TEST(Adasum, ReducesEachFusedTensorSeparately) {
  constexpr std::array<std::size_t, 3> kLengths{3, 200, 1};
  run_ranks_everywhere(2, [&](Communicator& communicator) {
    std::vector<std::vector<float>> tensors;
    std::vector<Request> requests;
    std::size_t begin = 0;
    for (const std::size_t count : kLengths) {
      tensors.push_back(values_of<float>(communicator.rank(), begin, count));
      begin += count;
    }
    FusionPlan plan({.together = std::size_t{1} << 20});
    for (auto& tensor : tensors) {
      Request request;
      request.name = "t" + std::to_string(requests.size());
      request.allreduce =
          AllreduceArguments{tensor.data(), tensor.data(), tensor.size(), HVD_FLOAT32, HVD_ADASUM};
      EXPECT_TRUE(plan.add(request));
      requests.push_back(std::move(request));
    }
    std::vector<const Request*> all;
    for (const Request& request : requests) all.push_back(&request);
    std::vector<std::byte> scratch;
    ASSERT_EQ(text_of(run_fused(communicator, all, scratch)), "ok");
    begin = 0;
    for (const auto& tensor : tensors) {
      expect_near(tensor, expected<float>(2, begin, tensor.size()), 4e-7, "fused tensor");
      begin += tensor.size();
    }
  });
}

TEST(Adasum, InvalidCallsFailOnEveryRankWithTheSameMessage) {
  run_ranks_everywhere(3, [](Communicator& communicator) {
    float values[] = {1, 2, 3};
    const auto call = [&](hvd_type type, hvd_op op) {
      return text_of(communicator.allreduce(values, values, 3, type, op, {.name = "x"}));
    };
    const std::string what = "allreduce \"x\": ";
    const std::string power = "Adasum is for a number of ranks that is a power of two, not for 3";
    EXPECT_EQ(call(HVD_FLOAT32, HVD_ADASUM),
              what + "rank 0: " + power + "; rank 1: " + power + "; rank 2: " + power);
    const std::string type = "Adasum is for floating point types, not for int32";
    EXPECT_EQ(call(HVD_INT32, HVD_ADASUM),
              what + "rank 0: " + type + "; rank 1: " + type + "; rank 2: " + type);
    EXPECT_EQ(call(HVD_FLOAT32, communicator.rank() == 1 ? HVD_SUM : HVD_MAX),
              what + "the ranks do not agree: the op is max on ranks 0,2 and sum on rank 1");
    float share = 0;
    const std::string outcome =
        text_of(communicator.reducescatter(values, 3, 1, HVD_FLOAT32, HVD_ADASUM, &share, {}));
    EXPECT_NE(outcome.find("Adasum is for allreduces"), std::string::npos) << outcome;
    EXPECT_EQ(call(HVD_FLOAT32, HVD_SUM), "ok") << "the next call works";
  });
}

}  // namespace
}  // namespace libhvd::test
