// HVD_REPRODUCIBLE: the same values give the same bits on every placement and by every path.
#include "collective/communicator.hpp"
#include "collective/element.hpp"
#include "support.hpp"

#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hvd/hvd.hpp>

namespace libhvd::test::reproducible {
namespace {

using Hosts = std::vector<int>;
using Buffer = std::vector<std::byte>;

// Makes numbers of different magnitude, so that every sum is rounded and depends on its order.
template <class T>
Buffer values_of(int rank, std::size_t count) {
  Buffer bytes(count * sizeof(T));
  std::uint64_t state = 12345u + static_cast<std::uint64_t>(rank);
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const float size = static_cast<float>(std::uint64_t{1} << (state >> 60));
    const T value(size * (static_cast<float>(state >> 40 & 0xffff) / 65536.0f - 0.5f));
    std::memcpy(&bytes[i * sizeof(T)], &value, sizeof value);
  }
  return bytes;
}

Buffer input_of(hvd_type type, int rank, std::size_t count) {
  switch (type) {
    case HVD_FLOAT64:
      return values_of<double>(rank, count);
    case HVD_FLOAT16:
      return values_of<hvd::float16>(rank, count);
    case HVD_BFLOAT16:
      return values_of<hvd::bfloat16>(rank, count);
    default:
      return values_of<float>(rank, count);
  }
}

struct Call {
  hvd_type type;
  hvd_op op;
  std::size_t count;
  Scale scale = {};
  Compression compression = Compression::none;
};

// Returns calls for every path: with the call header, in one step, in several, over the streams.
std::vector<Call> calls(int size) {
  std::vector<Call> all;
  for (const std::size_t count : {3u, 1000u, 8193u, 70001u, 300007u})
    all.push_back({HVD_FLOAT32, HVD_SUM, count});
  for (const hvd_type type : {HVD_FLOAT64, HVD_FLOAT16, HVD_BFLOAT16, HVD_FLOAT32}) {
    all.push_back({type, HVD_AVERAGE, 30011});
    all.push_back({type, HVD_PRODUCT, 100, {0.3, 0.7}});
  }
  for (const Compression compression : {Compression::float16, Compression::int8})
    all.push_back({HVD_FLOAT32, HVD_SUM, 50000, {}, compression});
  if (size == 2 || size == 4) all.push_back({HVD_FLOAT32, HVD_ADASUM, 30011});
  return all;
}

Buffer result_of(Communicator& communicator, const Call& call) {
  Buffer values = input_of(call.type, communicator.rank(), call.count);
  const Result<void> outcome =
      communicator.allreduce(values.data(), values.data(), call.count, call.type, call.op,
                             {.scale = call.scale, .compression = call.compression});
  EXPECT_TRUE(outcome.ok()) << outcome.error().message;
  return values;
}

// Returns the results of the calls with all ranks on one host.
std::vector<Buffer> results_on_one_host(int size) {
  std::vector<Buffer> results;
  run_ranks(size, [&](Communicator& communicator) {
    communicator.make_reproducible();
    for (const Call& call : calls(size)) {
      Buffer result = result_of(communicator, call);
      if (communicator.rank() == 0) results.push_back(std::move(result));
    }
  });
  return results;
}

const std::vector<Hosts> kPlacements{{0, 1},    {0, 0, 1},    {0, 1, 0},       {0, 1, 1},
                                     {0, 1, 2}, {0, 0, 1, 1}, {0, 1, 0, 1, 2}, {0, 1, 1, 1, 2}};

std::string describe(const Hosts& hosts) {
  std::string text = "hosts";
  for (const int host : hosts) text += " " + std::to_string(host);
  return text;
}

// Returns how many results of rank 0 differ from those on one host.
std::size_t count_differences(const Hosts& hosts, bool streams, bool reproducible) {
  const auto size = static_cast<int>(hosts.size());
  const std::vector<Buffer> wanted = results_on_one_host(size);
  std::size_t others = 0;
  run_ranks_on(hosts, SegmentShape::across_hosts(size), streams, [&](Communicator& communicator) {
    if (reproducible) communicator.make_reproducible();
    const auto second = communicator.second();
    const auto all = calls(size);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool same = result_of(i % 2 == 0 ? communicator : *second, all[i]) == wanted[i];
      if (communicator.rank() == 0) others += !same;
      if (reproducible) {
        EXPECT_TRUE(same) << describe(hosts) << (streams ? ", streams" : "") << ", call " << i;
      }
    }
    EXPECT_TRUE(communicator.barrier({}).ok());  // no rank leaves before all are done
  });
  return others;
}

TEST(Reproducible, AllreduceGivesTheBitsOfOneHostOnEveryPlacement) {
  for (const Hosts& hosts : kPlacements) {
    for (const bool streams : {true, false})
      EXPECT_EQ(count_differences(hosts, streams, true), 0u) << describe(hosts);
  }
}

// A control: shows that the test above can fail.
TEST(Reproducible, WithoutItThePlacementChangesTheBits) {
  EXPECT_GT(count_differences({0, 1, 1}, true, false), 5u);
}

TEST(Reproducible, ReducescatterGivesTheBitsOfOneHostOnEveryPlacement) {
  constexpr std::size_t kRows = 30001;
  std::map<int, Buffer> wanted;
  std::mutex mutex;
  const auto scatter = [&](Communicator& communicator) {
    communicator.make_reproducible();
    const Buffer input = input_of(HVD_FLOAT32, communicator.rank(), kRows);
    Buffer output((kRows / 3 + 1) * sizeof(float));
    EXPECT_TRUE(
        communicator.reducescatter(input.data(), kRows, 1, HVD_FLOAT32, HVD_SUM, output.data(), {})
            .ok());
    return output;
  };
  run_ranks(3, [&](Communicator& communicator) {
    Buffer output = scatter(communicator);
    const std::lock_guard lock(mutex);
    wanted[communicator.rank()] = std::move(output);
  });
  for (const Hosts& hosts : {Hosts{0, 1, 1}, Hosts{0, 1, 0}, Hosts{0, 1, 2}}) {
    run_ranks_on(hosts, [&](Communicator& communicator) {
      EXPECT_TRUE(scatter(communicator) == wanted.at(communicator.rank())) << describe(hosts);
    });
  }
}

TEST(Reproducible, DifferentSettingOfOneRankFailsOnEveryRank) {
  run_ranks_everywhere(3, [](Communicator& communicator) {
    if (communicator.rank() == 1) communicator.make_reproducible();
    for (const std::size_t count : {1u, 5000u, 100000u}) {
      std::vector<float> values(count, 1);
      const Result<void> outcome = communicator.allreduce(values.data(), values.data(), count,
                                                          HVD_FLOAT32, HVD_SUM, {.name = "grad"});
      ASSERT_FALSE(outcome.ok());
      EXPECT_EQ(
          outcome.error().message,
          "allreduce \"grad\": the ranks do not agree: HVD_REPRODUCIBLE is 0 on ranks 0,2 and "
          "1 on rank 1");
    }
  });
}

// ---- Processes ----------------------------------------------------------------------------------

// Returns digests of a sum of three ranks: without a name, with one, and in a process set.
std::string digest_of_job() {
  try {
    hvd::init();
    std::string text;
    const auto add = [&](const hvd::Options& options) {
      const Buffer input = input_of(HVD_FLOAT32, hvd::rank(), 50000);
      std::vector<float> values(50000);
      std::memcpy(values.data(), input.data(), input.size());
      hvd::allreduce(std::span(values), hvd::Op::sum, options);
      text += std::to_string(std::hash<std::string_view>{}(
                  {reinterpret_cast<const char*>(values.data()), input.size()})) +
              " ";
    };
    add({});
    add("named");
    hvd::Options in_set;
    in_set.on = hvd::ProcessSet{0, 1, 2};
    add(in_set);
    hvd::shutdown();
    return text;
  } catch (const hvd::Error& error) {
    return error.what();
  }
}

std::string digest_on(const Hosts& hosts, const char* value) {
  Job job(hosts, [](int, const Child::Report& report) { report(digest_of_job()); },
          {{"HVD_REPRODUCIBLE", value}});
  std::string first;
  for (int rank = 0; rank < job.size(); ++rank) {
    const std::string line = job.rank(rank).line().value_or("nothing");
    if (rank == 0) first = line;
    EXPECT_EQ(line, first) << "rank " << rank;
  }
  return first;
}

TEST(Reproducible, IsTurnedOnByTheEnvironment) {
  const std::string wanted = digest_on({0, 0, 0}, "1");
  EXPECT_EQ(digest_on({0, 1, 1}, "1"), wanted);
  EXPECT_EQ(digest_on({0, 1, 2}, "1"), wanted);
  EXPECT_NE(digest_on({0, 1, 1}, "0"), wanted);
  EXPECT_NE(digest_on({0, 1, 1}, "yes").find("HVD_REPRODUCIBLE=\"yes\""), std::string::npos);
}

}  // namespace
}  // namespace libhvd::test::reproducible
