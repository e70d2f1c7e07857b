// Ranks that all send the same gradients, and those that do so on purpose or not at all.
#include "engine/equal_gradients.hpp"

#include "submit.hpp"

#include <array>
#include <atomic>
#include <functional>
#include <string>

#include <hvd/hvd.hpp>

namespace libhvd::test {
namespace {

// Returns the gradient of a rank in a step, for a tensor.
using GradientOf = std::function<float(int rank, int step, int tensor)>;

constexpr int kTensors = 3;

// Has the ranks send their gradients. Returns how many ranks noticed that all are equal.
int noticed_by(int ranks, const GradientOf& gradient_of, int steps = 15) {
  std::atomic<int> noticed{0};
  run_ranks(ranks, [&](Communicator& communicator) {
    EngineOptions options;
    options.on_equal_gradients = [&] { ++noticed; };
    const auto engine = Engine::start(communicator.second(), std::move(options));
    ASSERT_TRUE(engine.ok());
    const Rank rank{**engine, communicator, communicator.rank(), communicator.size()};
    std::array<std::vector<float>, kTensors> tensors;
    for (int step = 0; step < steps; ++step) {
      std::vector<std::int64_t> handles;
      for (int tensor = 0; tensor < kTensors; ++tensor) {
        auto& values = tensors[static_cast<std::size_t>(tensor)];
        values.assign(static_cast<std::size_t>(tensor) * 1000 + 1,
                      gradient_of(rank.rank, step, tensor));
        Request request = sum_of("grad." + std::to_string(tensor), values);
        request.gradients = {values.data(), values.size() * sizeof(float)};
        handles.push_back(submit(rank, std::move(request)));
      }
      for (const std::int64_t handle : handles) ASSERT_EQ(message_of(rank.engine.wait(handle)), "");
    }
    ASSERT_TRUE(communicator.barrier({}).ok());
    (*engine)->stop();
  });
  return noticed;
}

TEST(EqualGradients, AllRanksNoticeOnce) {
  const auto same = [](int, int step, int tensor) { return static_cast<float>(step + tensor); };
  EXPECT_EQ(noticed_by(2, same), 2);
  EXPECT_EQ(noticed_by(3, same, 40), 3);
}

TEST(EqualGradients, NoRankNoticesIfOneRankDiffersInOneStep) {
  EXPECT_EQ(noticed_by(3,
                       [](int rank, int step, int tensor) {
                         const bool differs = rank == 2 && step == 7 && tensor == 1;
                         return static_cast<float>(step) + (differs ? 0.5f : 0);
                       }),
            0);
}

TEST(EqualGradients, NoRankNoticesOfGradientsWithoutInformation) {
  EXPECT_EQ(noticed_by(2, [](int, int, int) { return 0.0f; }), 0) << "zeros";
  const auto constant = [](int, int, int tensor) { return static_cast<float>(tensor + 1); };
  EXPECT_EQ(noticed_by(2, constant), 0) << "the same in each step";
}

TEST(EqualGradients, SeesTheOthersBesideGradientsThatAreZero) {
  const auto same = [](int, int step, int tensor) {
    return tensor == 0 ? 0.0f : static_cast<float>(step + 1);
  };
  EXPECT_EQ(noticed_by(2, same), 2);
}

TEST(EqualGradients, NoRankNoticesBeforeTenSteps) {
  const auto same = [](int, int step, int) { return static_cast<float>(step); };
  EXPECT_EQ(noticed_by(2, same, 10), 0);
  EXPECT_EQ(noticed_by(2, same, 12), 2);
}

TEST(EqualGradients, NoRankNoticesOfOneRank) {
  EXPECT_EQ(noticed_by(1, [](int, int step, int) { return static_cast<float>(step); }), 0);
}

// Makes twelve steps of the call with equal values on all ranks. Returns what rank 0 prints.
std::string printed_by(const std::function<void(std::vector<float>& values, int step)>& call,
                       const std::map<std::string, std::string>& variables = {}) {
  Job job(
      2,
      [&](int rank, const Child::Report& report) {
        testing::internal::CaptureStderr();
        hvd::init();
        std::vector<float> values(100);
        for (int step = 0; step < 12; ++step) {
          std::fill(values.begin(), values.end(), static_cast<float>(step));
          call(values, step);
        }
        hvd::shutdown();
        std::string text = testing::internal::GetCapturedStderr();
        if (text.ends_with('\n')) text.pop_back();
        report(rank == 0 || text.empty() ? text : "rank 1 printed: " + text);
      },
      variables);
  return job.rank(0).line().value_or("died") + job.rank(1).line().value_or("died");
}

hvd::Options gradients(const std::string& name) {
  hvd::Options options(name);
  options.gradients = true;
  return options;
}

constexpr const char* kWarning =
    "hvd: warning: all 2 ranks computed the same gradients in 10 steps, so they train on the same "
    "data; give each rank its part, with a sampler or a shard (docs/train/one-gpu-to-many.md, step "
    "5); if it is on purpose, set HVD_DATA_CHECK_DISABLE=1";

TEST(EqualGradients, EveryCallThatCarriesGradientsIsSeen) {
  EXPECT_EQ(printed_by([](std::vector<float>& values, int) {
              hvd::allreduce(std::span(values), hvd::Op::average, gradients("g"));
            }),
            kWarning);
  EXPECT_EQ(printed_by([](std::vector<float>& values, int) {
              std::vector<float> first(3, values[0]);
              const std::array<std::span<float>, 2> group{std::span(first), std::span(values)};
              hvd::grouped_allreduce(std::span<const std::span<float>>(group), hvd::Op::average,
                                     gradients("g"));
            }),
            kWarning);
  EXPECT_EQ(printed_by([](std::vector<float>& values, int) {
              std::vector<float> own(values.size());
              hvd::reducescatter(std::span<const float>(values), std::span(own), hvd::Op::average,
                                 gradients("g"));
            }),
            kWarning);
}

// The middle of the largest is zero, as that of an embedding may be. The smallest is too short.
TEST(EqualGradients, OfAGroupTheSmallestThatFillsASampleIsSeen) {
  EXPECT_EQ(printed_by([](std::vector<float>& values, int) {
              std::vector<float> first(3);
              std::vector<float> embedding(10000);
              const std::array<std::span<float>, 3> group{std::span(first), std::span(embedding),
                                                          std::span(values)};
              hvd::grouped_allreduce(std::span<const std::span<float>>(group), hvd::Op::average,
                                     gradients("g"));
            }),
            kWarning);
  EXPECT_EQ(
      printed_by([](std::vector<float>& values, int) {
        std::vector<float> zeros(3);
        const std::array<std::span<float>, 2> group{std::span(values).first(20), std::span(zeros)};
        hvd::grouped_allreduce(std::span<const std::span<float>>(group), hvd::Op::average,
                               gradients("g"));
      }),
      kWarning);
}

TEST(EqualGradients, OtherCallsAndProcessSetsAreNot) {
  EXPECT_EQ(printed_by([](std::vector<float>& values, int) {
              hvd::allreduce(std::span(values), hvd::Op::average, "metric");
            }),
            "");
  EXPECT_EQ(printed_by([](std::vector<float>& values, int step) {
              static hvd::ProcessSet replicas;
              if (step == 0) replicas = hvd::ProcessSet{0, 1};
              hvd::Options options = gradients("g");
              options.on = replicas;
              hvd::allreduce(std::span(values), hvd::Op::average, options);
            }),
            "");
}

TEST(EqualGradients, AVariableSilencesTheWarning) {
  EXPECT_EQ(
      printed_by([](std::vector<float>& values,
                    int) { hvd::allreduce(std::span(values), hvd::Op::average, gradients("g")); },
                 {{"HVD_DATA_CHECK_DISABLE", "1"}}),
      "");
}

}  // namespace
}  // namespace libhvd::test
