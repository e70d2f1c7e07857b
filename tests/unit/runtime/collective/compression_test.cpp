// Compressed allreduces against sums in double: their error, equal bits on all ranks, error
// feedback, and invalid calls.
#include "collective/compression.hpp"

#include "collective/communicator.hpp"
#include "collective/element.hpp"
#include "collective/error_feedback.hpp"
#include "collective/group.hpp"
#include "engine/engine.hpp"
#include "engine/fusion.hpp"
#include "hvd/float16.hpp"
#include "support.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace libhvd::test::compressed {
namespace {

using Hosts = std::vector<int>;

const std::vector<Hosts> kOnSeveralHosts{{0, 1},    {0, 1, 2},       {0, 0, 1},
                                         {0, 1, 0}, {0, 0, 0, 1, 1}, {0, 1, 1, 2}};
constexpr Compression kAll[] = {Compression::float16, Compression::bfloat16, Compression::int8};

// Returns a number between -1 and 1 that depends on the rank and the index; exact in float32.
double value_of(int rank, std::size_t i) {
  const auto bits = static_cast<std::uint32_t>(i + 1) * 2654435761u ^
                    static_cast<std::uint32_t>(rank + 1) * 2246822519u;
  return static_cast<double>(bits >> 8) / 8388608.0 - 1.0;
}

template <class T>
constexpr hvd_type kType = HVD_FLOAT32;
template <>
constexpr hvd_type kType<double> = HVD_FLOAT64;
template <>
constexpr hvd_type kType<hvd::float16> = HVD_FLOAT16;
template <>
constexpr hvd_type kType<hvd::bfloat16> = HVD_BFLOAT16;

template <class T>
double widen(T value) {
  if constexpr (sizeof(T) == 2) {
    return static_cast<float>(value);
  } else {
    return value;
  }
}

template <class T>
std::vector<T> values_of(int rank, std::size_t count) {
  std::vector<T> values;
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(T(static_cast<float>(value_of(rank, i))));
  return values;
}

// Returns half a unit in the last place of 1, for int8 half a step.
double precision_of(Compression compression) {
  switch (compression) {
    case Compression::float16:
      return 0x1p-11;
    case Compression::bfloat16:
      return 0x1p-8;
    default:
      return 1.0 / 254;
  }
}

template <class T>
double precision_of_type() {
  if (std::is_same_v<T, hvd::float16>) return 0x1p-11;
  return std::is_same_v<T, hvd::bfloat16> ? 0x1p-8 : 0x1p-24;
}

std::string describe(const Hosts& hosts, Compression compression, hvd_type type) {
  std::string text =
      std::string(compression_name(compression)) + " of " + type_name(type) + ", hosts";
  for (const int host : hosts) text += " " + std::to_string(host);
  return text;
}

// Collects the results of all ranks to compare their bits.
class Results {
 public:
  template <class T>
  void add(const std::vector<T>& values) {
    const std::lock_guard lock(mutex_);
    const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
    all_.emplace_back(bytes, bytes + values.size() * sizeof(T));
  }
  void expect_equal(const std::string& what) const {
    for (const auto& result : all_) EXPECT_TRUE(result == all_.front()) << what;
  }

 private:
  std::mutex mutex_;
  std::vector<std::vector<std::byte>> all_;
};

template <class T>
void expect_near(const Hosts& hosts, Compression compression, hvd_op op, std::size_t count,
                 const Scale& scale = {}, std::size_t shift = 0) {
  const std::string what = describe(hosts, compression, kType<T>);
  const auto ranks = static_cast<int>(hosts.size());
  Results results;
  run_ranks_on(hosts, [&](Communicator& communicator) {
    std::vector<T> values = values_of<T>(communicator.rank(), count);
    std::vector<std::byte> bytes(count * sizeof(T) + shift);
    std::memcpy(bytes.data() + shift, values.data(), count * sizeof(T));
    const Result<void> outcome =
        communicator.allreduce(bytes.data() + shift, bytes.data() + shift, count, kType<T>, op,
                               {.scale = scale, .compression = compression});
    ASSERT_TRUE(outcome.ok()) << what << ": " << outcome.error().message;
    std::memcpy(values.data(), bytes.data() + shift, count * sizeof(T));
    results.add(values);
    if (communicator.rank() != 0) return;
    const double factor = scale.before * scale.after / (op == HVD_AVERAGE ? ranks : 1);
    // Values are at most 1. The sum of each host is rounded, and then the result.
    const double relative = precision_of(compression) + precision_of_type<T>();
    const double most = 2 * ranks * factor * relative * 1.01;
    std::size_t rounded = 0;
    for (std::size_t i = 0; i < count; ++i) {
      double sum = 0;
      for (int rank = 0; rank < ranks; ++rank)
        sum += widen(T(static_cast<float>(value_of(rank, i))));
      ASSERT_NEAR(widen(values[i]), sum * factor, most) << what << ", element " << i;
      rounded += std::abs(widen(values[i]) - sum * factor) > most / 100;
    }
    EXPECT_GT(rounded, count / 10) << what << ": it looks as if nothing was compressed";
  });
  results.expect_equal(what);
}

// One stretch, several stretches, and a last block that is not full.
constexpr std::size_t kLengths[] = {20000, 70001, 500003};

TEST(Compression, ErrorStaysWithinThePrecisionOfTheFormat) {
  for (const Hosts& hosts : kOnSeveralHosts) {
    for (const Compression compression : kAll) {
      for (const std::size_t count : kLengths)
        expect_near<float>(hosts, compression, HVD_SUM, count);
    }
  }
}

TEST(Compression, SupportsEveryFloatingPointType) {
  for (const Hosts& hosts : {Hosts{0, 1}, Hosts{0, 0, 1}}) {
    for (const Compression compression : kAll) {
      expect_near<double>(hosts, compression, HVD_SUM, 40001);
      expect_near<hvd::float16>(hosts, compression, HVD_SUM, 40001);
      expect_near<hvd::bfloat16>(hosts, compression, HVD_SUM, 40001);
    }
  }
}

TEST(Compression, SupportsAveragesFactorsAndUnalignedBuffers) {
  for (const Hosts& hosts : kOnSeveralHosts) {
    for (const Compression compression : kAll) {
      expect_near<float>(hosts, compression, HVD_AVERAGE, 30001, {}, 1);
      expect_near<double>(hosts, compression, HVD_AVERAGE, 30001, {0.5, 3}, 1);
      expect_near<float>(hosts, compression, HVD_SUM, 30001, {0.25, 2});
    }
  }
}

// Expects the same bits with and without compression.
void expect_plain(Communicator& communicator, std::size_t count) {
  for (const Compression compression : kAll) {
    std::vector<float> compressed = values_of<float>(communicator.rank(), count);
    std::vector<float> plain = compressed;
    const auto reduce = [&](std::vector<float>& values, Compression with) {
      return communicator.allreduce(values.data(), values.data(), values.size(), HVD_FLOAT32,
                                    HVD_SUM, {.compression = with});
    };
    ASSERT_TRUE(reduce(compressed, compression).ok());
    ASSERT_TRUE(reduce(plain, Compression::none).ok());
    EXPECT_TRUE(compressed == plain);
  }
}

TEST(Compression, IsSkippedOnOneHostAndForSmallData) {
  for (const int size : {1, 3})
    run_ranks(size, [](Communicator& communicator) { expect_plain(communicator, 100000); });
  run_ranks_on({0, 1, 0}, [](Communicator& communicator) { expect_plain(communicator, 8192); });
}

TEST(Compression, OverflowGivesInfinityInFloat16AndNaNInInt8) {
  run_ranks_on({0, 1}, [](Communicator& communicator) {
    std::vector<float> values(20000, 40000);
    ASSERT_TRUE(communicator
                    .allreduce(values.data(), values.data(), values.size(), HVD_FLOAT32, HVD_SUM,
                               {.compression = Compression::float16})
                    .ok());
    EXPECT_EQ(values[777], std::numeric_limits<float>::infinity());
    std::fill(values.begin(), values.end(), 1.0f);
    values[777] = 3e38f;
    ASSERT_TRUE(communicator
                    .allreduce(values.data(), values.data(), values.size(), HVD_FLOAT32, HVD_SUM,
                               {.compression = Compression::int8})
                    .ok());
    EXPECT_TRUE(std::isnan(values[777]));
    EXPECT_NEAR(values[15000], 2, 0.1);
  });
}

TEST(Compression, ZerosAndTinyNumbersBecomeZero) {
  run_ranks_on({0, 1}, [](Communicator& communicator) {
    for (const float value : {0.0f, 1e-38f, 1e-42f}) {
      std::vector<float> values(20000, value);
      ASSERT_TRUE(communicator
                      .allreduce(values.data(), values.data(), values.size(), HVD_FLOAT32, HVD_SUM,
                                 {.compression = Compression::int8})
                      .ok());
      EXPECT_EQ(values, std::vector<float>(20000, 0.0f));
    }
  });
}

// ---- Errors -------------------------------------------------------------------------------------

// Makes the call on one host and on two, and expects this error on every rank.
void expect_error(hvd_status status, const std::string& text,
                  const std::function<Result<void>(Communicator&)>& call) {
  run_ranks_everywhere(3, [&](Communicator& communicator) {
    const Result<void> outcome = call(communicator);
    ASSERT_FALSE(outcome.ok()) << text;
    EXPECT_EQ(outcome.error().status, status);
    EXPECT_NE(outcome.error().message.find(text), std::string::npos) << outcome.error().message;
    EXPECT_TRUE(communicator.barrier({}).ok());
  });
}

Result<void> reduce(Communicator& communicator, hvd_type type, hvd_op op, Compression compression) {
  std::vector<double> room(20000, 0);
  return communicator.allreduce(room.data(), room.data(), room.size(), type, op,
                                {.name = "grad", .compression = compression});
}

TEST(CompressionError, UnsupportedTypesOpsAndCollectivesAreRefused) {
  expect_error(HVD_ERROR_INVALID_ARGUMENT,
               "compression in int8 is for floating point types, not for int32",
               [](Communicator& communicator) {
                 return reduce(communicator, HVD_INT32, HVD_SUM, Compression::int8);
               });
  expect_error(HVD_ERROR_INVALID_ARGUMENT,
               "compression in bfloat16 is for sum and average, not for max",
               [](Communicator& communicator) {
                 return reduce(communicator, HVD_FLOAT32, HVD_MAX, Compression::bfloat16);
               });
  expect_error(HVD_ERROR_INVALID_ARGUMENT, "not for adasum", [](Communicator& communicator) {
    return reduce(communicator, HVD_FLOAT32, HVD_ADASUM, Compression::float16);
  });
  expect_error(HVD_ERROR_INVALID_ARGUMENT, "the compression 9 is none of",
               [](Communicator& communicator) {
                 return reduce(communicator, HVD_FLOAT32, HVD_SUM, static_cast<Compression>(9));
               });
  expect_error(HVD_ERROR_INVALID_ARGUMENT, "there is compression for allreduce only",
               [](Communicator& communicator) {
                 float value = 1;
                 return communicator.broadcast(&value, 1, HVD_FLOAT32, 0,
                                               {.compression = Compression::float16});
               });
}

template <class T>
void expect_finite_only(T value) {
  expect_error(HVD_ERROR_INVALID_ARGUMENT,
               "rank 1: compression in int8 is for finite numbers: element 12345 is infinite, NaN "
               "or beyond float32",
               [&](Communicator& communicator) {
                 std::vector<T> values(20000, T(1.0f));
                 if (communicator.rank() == 1) values[12345] = value;
                 return communicator.allreduce(values.data(), values.data(), values.size(),
                                               kType<T>, HVD_SUM,
                                               {.name = "grad", .compression = Compression::int8});
               });
}

TEST(CompressionError, NonFiniteInputOfOneRankFailsForInt8) {
  expect_finite_only(std::numeric_limits<float>::infinity());
  expect_finite_only(-std::numeric_limits<float>::infinity());
  expect_finite_only(std::numeric_limits<float>::quiet_NaN());
  expect_finite_only(1e300);
  expect_finite_only(std::numeric_limits<double>::quiet_NaN());
  expect_finite_only(hvd::float16(std::numeric_limits<float>::infinity()));
  expect_finite_only(hvd::bfloat16(std::numeric_limits<float>::quiet_NaN()));
}

TEST(CompressionError, NamesTheTensorOfAGroup) {
  expect_error(
      HVD_ERROR_INVALID_ARGUMENT, "tensor 1: compression in int8 is for finite numbers",
      [](Communicator& communicator) {
        std::vector<float> one(10, 1);
        std::vector<float> two(10, std::numeric_limits<float>::infinity());
        const AllreduceGroup group{
            {one.data(), two.data()}, {one.data(), two.data()}, {10, 10}, HVD_FLOAT32, HVD_SUM};
        return allreduce_group(communicator, group, {.compression = Compression::int8});
      });
}

TEST(CompressionError, DifferentCompressionOfOneRankFailsOnEveryRank) {
  expect_error(HVD_ERROR_MISMATCH, "the compression is float16 on ranks 0-1 and none on rank 2",
               [](Communicator& communicator) {
                 return reduce(communicator, HVD_FLOAT32, HVD_SUM,
                               communicator.rank() == 2 ? Compression::none : Compression::float16);
               });
}

// ---- Error feedback -----------------------------------------------------------------------------

constexpr int kRounds = 50;
// Returns the largest error that one int8 call of these ranks may have.
double largest_error_of_call(int ranks) {
  return 2 * ranks * precision_of(Compression::int8) * 1.01;
}

// Sums the same values again and again. The mean of the results is close to the exact sum only if
// each call adds what the rounding of the last one left out.
void expect_mean(Communicator& communicator, std::size_t count, bool close,
                 const std::function<void(std::vector<float>&)>& reduce) {
  std::vector<double> mean(count, 0);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<float> values = values_of<float>(communicator.rank(), count);
    reduce(values);
    for (std::size_t i = 0; i < count; ++i) mean[i] += values[i] / double{kRounds};
  }
  double worst = 0;
  for (std::size_t i = 0; i < count; ++i) {
    double sum = 0;
    for (int rank = 0; rank < communicator.size(); ++rank) sum += value_of(rank, i);
    worst = std::max(worst, std::abs(mean[i] - sum));
  }
  const double limit = 2 * largest_error_of_call(communicator.size()) / kRounds;
  if (close) {
    EXPECT_LT(worst, limit);
  } else {
    EXPECT_GT(worst, limit);
  }
}

const std::vector<Hosts> kPlacements{{0, 1}, {0, 0, 1}, {0, 1, 2}};

TEST(ErrorFeedback, CorrectsTheMeanOfATensorAndOfAGroup) {
  for (const Hosts& hosts : kPlacements) {
    run_ranks_on(hosts, [](Communicator& communicator) {
      constexpr std::size_t kCount = 30000;
      for (const bool kept : {true, false}) {
        ErrorFeedback feedback;
        const CallOptions options{.compression = Compression::int8,
                                  .feedback = kept ? &feedback : nullptr};
        expect_mean(communicator, kCount, kept, [&](std::vector<float>& values) {
          ASSERT_TRUE(communicator
                          .allreduce(values.data(), values.data(), values.size(), HVD_FLOAT32,
                                     HVD_SUM, options)
                          .ok());
        });
        ErrorFeedback of_group;
        CallOptions in_group = options;
        in_group.feedback = kept ? &of_group : nullptr;
        // The short ones are packed into one call.
        const std::vector<std::size_t> lengths{900,  1000, 1000, 1000, 1000, 1000,
                                               1000, 1000, 1000, 1000, 5000, 15100};
        expect_mean(communicator, kCount, kept, [&](std::vector<float>& values) {
          AllreduceGroup group{{}, {}, lengths, HVD_FLOAT32, HVD_SUM};
          float* at = values.data();
          for (const std::size_t length : lengths) {
            group.inputs.push_back(at);
            group.outputs.push_back(at);
            at += length;
          }
          ASSERT_TRUE(allreduce_group(communicator, group, in_group).ok());
        });
      }
    });
  }
}

// Other tensors are fused in every call; each tensor keeps its own residual.
TEST(ErrorFeedback, CorrectsTheMeanOfFusedTensors) {
  for (const Hosts& hosts : kPlacements) {
    run_ranks_on(hosts, [](Communicator& communicator) {
      constexpr std::size_t kTensors = 24;
      constexpr std::size_t kLength = 1000;
      ErrorFeedback feedback[kTensors];
      std::vector<std::byte> scratch;
      std::size_t round = 0;
      expect_mean(communicator, kTensors * kLength, true, [&](std::vector<float>& values) {
        std::vector<Request> requests;
        for (std::size_t i = 0; i < kTensors; ++i) {
          const std::size_t own = (i + round * 5) % kTensors;
          float* const at = &values[own * kLength];
          Request request;
          request.name = "t" + std::to_string(own);
          request.options.compression = Compression::int8;
          request.options.feedback = &feedback[own];
          request.allreduce = AllreduceArguments{at, at, kLength, HVD_FLOAT32, HVD_SUM};
          requests.push_back(request);
        }
        FusionPlan plan({.together = std::size_t{1} << 20});
        std::vector<const Request*> fused;
        for (const Request& request : requests) {
          ASSERT_TRUE(plan.add(request));
          fused.push_back(&request);
        }
        Request other = requests.front();
        other.options.compression = Compression::none;
        EXPECT_FALSE(plan.add(other)) << "differs in compression";
        ASSERT_TRUE(run_fused(communicator, fused, scratch).ok());
        ++round;
      });
    });
  }
}

Request compressed_sum(const std::string& name, std::vector<float>& values) {
  Request request;
  request.kind = "allreduce";
  request.name = name;
  request.options.compression = Compression::int8;
  const AllreduceArguments own{values.data(), values.data(), values.size(), HVD_FLOAT32, HVD_SUM};
  request.allreduce = own;
  request.run = [own](Communicator& communicator, const CallOptions& options) {
    return communicator.allreduce(own.input, own.output, own.count, own.type, own.op, options);
  };
  return request;
}

// The engine keeps the residual of a tensor that the program named, while the name is cached.
TEST(ErrorFeedback, IsKeptPerNameWhileTheNameIsCached) {
  struct Case {
    const char* name;
    std::size_t capacity;
    bool kept;
  };
  for (const Case& own : {Case{"grad", 100, true}, Case{"", 100, false}, Case{"grad", 0, false}}) {
    run_ranks_on({0, 0, 1}, [&](Communicator& communicator) {
      EngineOptions options;
      options.settings.cache_capacity = own.capacity;
      const auto engine = Engine::start(communicator.second(), std::move(options));
      ASSERT_TRUE(engine.ok());
      expect_mean(communicator, 30000, own.kept, [&](std::vector<float>& values) {
        const auto handle = (*engine)->submit(compressed_sum(own.name, values));
        ASSERT_TRUE(handle.ok());
        ASSERT_TRUE((*engine)->wait(*handle).ok());
      });
      ASSERT_TRUE(communicator.barrier({}).ok());  // no rank leaves before all are done
      (*engine)->stop();
    });
  }
}

}  // namespace
}  // namespace libhvd::test::compressed
