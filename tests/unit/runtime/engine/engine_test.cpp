// The engine: submissions in any order and from any thread, equal errors on all ranks, no hangs.
#include "submit.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

namespace libhvd::test {
namespace {

TEST(Engine, RanksMaySubmitInAnyOrder) {
  for (const int size : {1, 2, 4}) {
    run_engines(size, [](const Rank& rank) {
      constexpr int kTensors = 50;
      std::vector<std::vector<float>> tensors;
      for (int i = 0; i < kTensors; ++i)
        tensors.emplace_back(static_cast<std::size_t>(1 + i * 200),
                             static_cast<float>(i + rank.rank));
      std::vector<std::int64_t> handles(kTensors);
      for (int i = 0; i < kTensors; ++i) {
        const int own = (i * 7 + rank.rank * 13) % kTensors;  // 7 and 50 have no common divisor
        handles[static_cast<std::size_t>(own)] =
            submit(rank, sum_of("t" + std::to_string(own), tensors[static_cast<std::size_t>(own)]));
      }
      for (int i = 0; i < kTensors; ++i) {
        const auto index = static_cast<std::size_t>(i);
        EXPECT_EQ(message_of(rank.engine.wait(handles[index])), "");
        const auto wanted = static_cast<float>(i * rank.size + rank.size * (rank.size - 1) / 2);
        EXPECT_EQ(tensors[index], std::vector<float>(tensors[index].size(), wanted)) << i;
      }
    });
  }
}

TEST(Engine, ManyThreadsMaySubmitRepeatedly) {
  run_engines(2, [](const Rank& rank) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 3; ++thread) {
      threads.emplace_back([=] {
        std::vector<float> values(10);
        for (int round = 0; round < 100; ++round) {
          std::fill(values.begin(), values.end(), static_cast<float>(round));
          const auto handle = submit(rank, sum_of("thread " + std::to_string(thread), values));
          ASSERT_EQ(message_of(rank.engine.wait(handle)), "");
          ASSERT_EQ(values, std::vector<float>(10, static_cast<float>(round * rank.size)));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TEST(Engine, CompletesACallThatNoThreadWaitsFor) {
  run_engines(2, [](const Rank& rank) {
    std::vector<float> values(5, 1);
    const auto handle = submit(rank, sum_of("x", values));
    while (true) {
      const auto done = rank.engine.done(handle);
      ASSERT_TRUE(done.ok());
      if (*done) break;
      std::this_thread::yield();
    }
    EXPECT_EQ(values[0], 2);
    EXPECT_EQ(message_of(rank.engine.wait(handle)), "");
  });
}

TEST(Engine, RunsBesideBlockingCalls) {
  run_engines(3, [](const Rank& rank) {
    std::thread other([&] {
      std::vector<float> values(3000);
      for (int round = 0; round < 50; ++round) {
        std::fill(values.begin(), values.end(), 1.0f);
        ASSERT_EQ(message_of(rank.engine.wait(submit(rank, sum_of("x", values)))), "");
        ASSERT_EQ(values, std::vector<float>(3000, 3));
      }
    });
    for (int round = 0; round < 50; ++round) {
      std::vector<int> values(20'000, round);
      ASSERT_TRUE(
          rank.communicator
              .allreduce(values.data(), values.data(), values.size(), HVD_INT32, HVD_SUM, {})
              .ok());
      ASSERT_EQ(values, std::vector<int>(20'000, 3 * round));
    }
    other.join();
  });
}

// Rank 0 waits for the background call before the barrier, rank 1 after it.
TEST(Engine, AWaitMayComeBeforeOrAfterABlockingCall) {
  run_engines(2, [](const Rank& rank) {
    for (int round = 0; round < 20; ++round) {
      std::vector<float> values(10, 1);
      const auto handle = submit(rank, sum_of("x", values));
      const auto wait = [&] { EXPECT_EQ(message_of(rank.engine.wait(handle)), ""); };
      if (rank.rank == 0) wait();
      ASSERT_TRUE(rank.communicator.barrier({}).ok());
      if (rank.rank == 1) wait();
      EXPECT_EQ(values[0], 2);
    }
  });
}

// In many waits the waiting threads do the work. Then the engine's thread must take over again.
TEST(Engine, ItsThreadResumesAfterManyWaits) {
  run_engines(2, [](const Rank& rank) {
    for (int round = 0; round < 4; ++round) {
      std::vector<float> values(10);
      for (int call = 0; call < 20; ++call)
        ASSERT_EQ(message_of(rank.engine.wait(submit(rank, sum_of("x", values)))), "");
      std::fill(values.begin(), values.end(), 1.0f);
      const auto handle = submit(rank, sum_of("x", values));
      const auto wait = [&] { EXPECT_EQ(message_of(rank.engine.wait(handle)), ""); };
      const bool polls = round % 2 == 1;
      if (rank.rank == 0) wait();
      while (rank.rank == 1 && polls && !*rank.engine.done(handle)) std::this_thread::yield();
      ASSERT_TRUE(rank.communicator.barrier({}).ok());
      if (rank.rank == 1) wait();
      EXPECT_EQ(values[0], 2);
    }
  });
}

TEST(Engine, MatchesUnnamedCallsByTheirOrder) {
  run_engines(3, [](const Rank& rank) {
    std::vector<float> first(3, 1), second(4, 10);
    const auto a = submit(rank, sum_of("", first));
    const auto b = submit(rank, sum_of("", second));
    EXPECT_EQ(message_of(rank.engine.wait(b)), "");
    EXPECT_EQ(message_of(rank.engine.wait(a)), "");
    EXPECT_EQ(first[0], 3);
    EXPECT_EQ(second[0], 30);
  });
}

// The wrong tensor is among small ones that would be fused. With 100,000 elements rank 1 would not
// fuse it.
TEST(Engine, AMismatchFailsOnlyItsTensor) {
  for (const std::size_t odd : {0, 1, 2, 4}) {
    for (const std::size_t count : {11, 100'000}) {
      run_engines(3, [&](const Rank& rank) {
        std::vector<std::vector<float>> tensors(5, std::vector<float>(10, 1));
        if (rank.rank == 1) tensors[odd].resize(count, 1);
        std::vector<std::int64_t> handles;
        for (std::size_t i = 0; i < tensors.size(); ++i)
          handles.push_back(submit(rank, sum_of("t" + std::to_string(i), tensors[i])));
        for (std::size_t i = 0; i < tensors.size(); ++i) {
          const std::string wanted = i == odd
                                         ? "allreduce \"t" + std::to_string(odd) +
                                               "\": the ranks do not agree: the count is 10 on "
                                               "ranks 0,2 and " +
                                               std::to_string(count) + " on rank 1"
                                         : "";
          EXPECT_EQ(message_of(rank.engine.wait(handles[i])), wanted);
          EXPECT_EQ(tensors[i][0], i == odd ? 1 : 3);
        }
      });
    }
  }
}

TEST(Engine, ADifferentShapeOfTheSameSizeIsAMismatch) {
  run_engines(2, [](const Rank& rank) {
    std::vector<std::vector<float>> tensors(3, std::vector<float>(6, 1));
    std::vector<std::int64_t> handles;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      Request request = sum_of("t" + std::to_string(i), tensors[i]);
      request.options.shape = i == 1 && rank.rank == 1 ? "[3, 2]" : "[2, 3]";
      handles.push_back(submit(rank, std::move(request)));
    }
    EXPECT_EQ(message_of(rank.engine.wait(handles[0])), "");
    EXPECT_EQ(
        message_of(rank.engine.wait(handles[1])),
        "allreduce \"t1\": the ranks do not agree: the shape is [2, 3] on rank 0 and [3, 2] on "
        "rank 1");
    EXPECT_EQ(message_of(rank.engine.wait(handles[2])), "");
    EXPECT_EQ(tensors[2][0], 2);
  });
}

// A rank that finds a fault in its own request fuses nothing.
TEST(Engine, AnInvalidTensorFailsAloneAmongFusedOnes) {
  run_engines(2, [](const Rank& rank) {
    for (std::size_t odd = 0; odd < 3; ++odd) {
      std::vector<std::vector<float>> tensors(4, std::vector<float>(10, 1));
      std::vector<std::int64_t> handles;
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        Request request = sum_of("t" + std::to_string(i), tensors[i]);
        if (i == odd && rank.rank == 0) request.options.fault = "it is wrong";
        handles.push_back(submit(rank, std::move(request)));
      }
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        const std::string wanted =
            i == odd ? "allreduce \"t" + std::to_string(odd) + "\": rank 0: it is wrong" : "";
        EXPECT_EQ(message_of(rank.engine.wait(handles[i])), wanted);
      }
    }
  });
}

TEST(Engine, DifferentSettingsFailOnEveryRank) {
  run_ranks(2, [](Communicator& communicator) {
    EngineOptions options;
    if (communicator.rank() == 1) {
      options.settings.cache_capacity = 7;
      options.settings.fusion.each = 8;
    }
    const auto engine = Engine::start(communicator.second(), options);
    ASSERT_TRUE(engine.ok());
    const Rank rank{**engine, communicator, communicator.rank(), 2};
    std::vector<float> values(4, 1);
    const std::string message = message_of(rank.engine.wait(submit(rank, sum_of("x", values))));
    EXPECT_NE(message.find("HVD_FUSION_LARGEST is 4096 on rank 0 and 8 on rank 1"),
              std::string::npos)
        << message;
    EXPECT_NE(message.find("HVD_CACHE_CAPACITY is 4096 on rank 0 and 7 on rank 1"),
              std::string::npos)
        << message;
  });
}

// The second submission fails at once, the first one on all ranks.
TEST(Engine, ANameSubmittedTwiceFailsOnEveryRank) {
  run_engines(3, [](const Rank& rank) {
    std::vector<float> values(5, 1), other(5, 1), go(1);
    std::int64_t handle = 0;
    if (rank.rank == 0) {
      handle = submit(rank, sum_of("x", values));
      const auto again = rank.engine.submit(sum_of("x", other));
      ASSERT_FALSE(again.ok());
      EXPECT_EQ(again.error().message,
                "allreduce \"x\": was submitted before, and is not done yet");
    }
    EXPECT_EQ(message_of(rank.engine.wait(submit(rank, sum_of("go", go)))), "");
    if (rank.rank != 0) handle = submit(rank, sum_of("x", values));
    EXPECT_EQ(message_of(rank.engine.wait(handle)),
              "allreduce \"x\": rank 0: it was submitted twice");
    EXPECT_EQ(values[0], 1);
    EXPECT_EQ(message_of(rank.engine.wait(submit(rank, sum_of("x", values)))), "");
    EXPECT_EQ(values[0], 3);
  });
}

// All requests are submitted while the engine of each rank carries out another one.
TEST(Engine, CarriesOutTheLargestPriorityFirst) {
  std::vector<std::string> order;
  run_ranks(2, [&](Communicator& communicator) {
    EngineOptions alone;
    alone.settings.fusion.together = 0;
    const auto engine = Engine::start(communicator.second(), alone);
    ASSERT_TRUE(engine.ok());
    const Rank rank{**engine, communicator, communicator.rank(), 2};
    std::promise<void> runs;
    std::promise<void> all;
    Request gate;
    gate.kind = "barrier";
    gate.run = [&](Communicator& own, const CallOptions& options) {
      runs.set_value();
      all.get_future().wait();
      return own.barrier(options);
    };
    std::vector<std::int64_t> handles{submit(rank, std::move(gate))};
    runs.get_future().wait();  // earlier requests could be negotiated together with the gate
    std::vector<std::vector<float>> tensors(6, std::vector<float>(3, 1));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      Request request = sum_of("t" + std::to_string(i), tensors[i]);
      request.priority = static_cast<std::int32_t>(i / 2);
      request.run = [&, run = request.run](Communicator& own, const CallOptions& options) {
        if (own.rank() == 0) order.push_back(options.name);
        return run(own, options);
      };
      handles.push_back(submit(rank, std::move(request)));
    }
    all.set_value();
    for (const std::int64_t handle : handles) EXPECT_EQ(message_of(rank.engine.wait(handle)), "");
    ASSERT_TRUE(communicator.barrier({}).ok());
    (*engine)->stop();
  });
  EXPECT_EQ(order, (std::vector<std::string>{"t4", "t5", "t2", "t3", "t0", "t1"}));
}

TEST(Engine, StopFailsPendingAndLaterRequests) {
  run_ranks(2, [](Communicator& communicator) {
    const auto engine = Engine::start(communicator.second());
    ASSERT_TRUE(engine.ok());
    std::vector<float> values(5, 1);
    const std::string own = "only here " + std::to_string(communicator.rank());
    const Rank rank{**engine, communicator, communicator.rank(), 2};
    const auto handle = submit(rank, sum_of(own, values));
    std::thread waiter([&] {
      EXPECT_EQ(message_of((*engine)->wait(handle)),
                "allreduce \"" + own + "\": hvd_shutdown was called before it was done");
    });
    (*engine)->stop();
    waiter.join();
    const auto later = submit(rank, sum_of("later", values));
    EXPECT_EQ(message_of((*engine)->wait(later)),
              "allreduce \"later\": hvd_shutdown was called before it was done");
    EXPECT_EQ(message_of((*engine)->wait(later)), "there is no handle " + std::to_string(later));
  });
}

TEST(Engine, ARankThatLeavesFailsPendingRequests) {
  run_ranks(3, [](Communicator& communicator) {
    const auto engine = Engine::start(communicator.second());
    ASSERT_TRUE(engine.ok());
    if (communicator.rank() == 1) return;  // run_ranks() makes it leave
    std::vector<float> values(5, 1);
    const Rank rank{**engine, communicator, communicator.rank(), 3};
    const auto handle = submit(rank, sum_of("x", values));
    const Result<void> outcome = (*engine)->wait(handle);
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().status, HVD_ERROR_PEER);
    EXPECT_NE(outcome.error().message.find("rank 1"), std::string::npos) << outcome.error().message;
  });
}

// The waiting thread leaves a less urgent request to the engine's thread.
TEST(Engine, AWaitDoesNotCarryOutLessUrgentRequests) {
  run_engines(3, [](const Rank& rank) {
    std::vector<float> first(10, 1), second(10, 1);
    std::promise<void> returned;
    const std::shared_future<void> gate = returned.get_future().share();
    Request urgent = sum_of("urgent", first);
    urgent.priority = 1;
    Request later = sum_of("later", second);
    later.allreduce.reset();  // prevents its fusion
    later.run = [sum = later.run, gate](Communicator& communicator, const CallOptions& options) {
      EXPECT_EQ(gate.wait_for(std::chrono::seconds(30)), std::future_status::ready);
      return sum(communicator, options);
    };
    const std::int64_t soon = submit(rank, std::move(urgent));
    const std::int64_t then = submit(rank, std::move(later));
    EXPECT_EQ(message_of(rank.engine.wait(soon)), "");
    returned.set_value();
    EXPECT_EQ(message_of(rank.engine.wait(then)), "");
    EXPECT_EQ(second, std::vector<float>(10, 3));
  });
}

}  // namespace
}  // namespace libhvd::test
