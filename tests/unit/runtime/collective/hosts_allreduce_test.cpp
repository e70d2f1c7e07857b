// Allreduces between hosts, with ranks as threads. Every size must give the bits of one reduction
// of all inputs in the order of hosts_allreduce.hpp.
#include "collective/communicator.hpp"
#include "collective/element.hpp"
#include "support.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

using Hosts = std::vector<int>;
using Buffer = std::vector<std::byte>;

const std::vector<Hosts> kPlacements{{0, 1},          {0, 0, 1, 1},    {0, 0, 0, 1},
                                     {0, 1, 0, 1, 0}, {0, 1, 2, 3, 4}, {0, 0, 1, 1, 2},
                                     {0, 1, 1, 2}};

struct Plan {
  hvd_type type;
  hvd_op op;
  std::size_t count;
  Scale scale = {};
  std::size_t shift = 0;  // bytes from an aligned address to the buffers
  bool in_place = true;
  std::uint32_t seed = 1;
};

std::string describe(const Hosts& hosts, const Plan& plan) {
  std::string text = std::string(type_name(plan.type)) + " " + op_name(plan.op) + ", " +
                     std::to_string(plan.count) + " elements, shift " + std::to_string(plan.shift) +
                     (plan.in_place ? ", in place" : "") + ", hosts";
  for (const int host : hosts) text += " " + std::to_string(host);
  return text;
}

// Makes floating point numbers whose sums are rounded; other types get random bits.
Buffer make_input(const Plan& plan, int rank) {
  Buffer bytes(plan.count * element_size(plan.type));
  std::uint64_t state = plan.seed * 1000 + static_cast<std::uint64_t>(rank);
  const auto next = [&] { return state = state * 6364136223846793005u + 1442695040888963407u; };
  const auto fill = [&](auto make) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(make())) {
      const auto value = make();
      std::memcpy(&bytes[at], &value, std::min(sizeof value, bytes.size() - at));
    }
  };
  if (plan.type == HVD_FLOAT32) {
    fill([&] { return static_cast<float>(next() >> 40) / 1e6f - 8; });
  } else if (plan.type == HVD_FLOAT64) {
    fill([&] { return static_cast<double>(next() >> 40) / 1e6 - 8; });
  } else {
    fill(next);
  }
  // Clears a bit of the exponent: infinities and NaNs would hide errors of the sums.
  if (plan.type == HVD_FLOAT16 || plan.type == HVD_BFLOAT16) {
    for (std::size_t i = 1; i < bytes.size(); i += 2) bytes[i] &= std::byte{0xbb};
  }
  return bytes;
}

Buffer make_reference(const Hosts& hosts, const Plan& plan) {
  std::vector<Buffer> inputs;
  std::vector<const void*> pointers;
  for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank)
    inputs.push_back(make_input(plan, rank));
  for (const Buffer& input : inputs) pointers.push_back(input.data());
  Buffer output(plan.count * element_size(plan.type));
  ReductionOrder(hosts).reduce(plan.op, plan.type, pointers, output.data(), plan.count, plan.scale);
  return output;
}

void expect_result(Communicator& communicator, const Plan& plan, const Buffer& wanted,
                   const std::string& what) {
  const Buffer input = make_input(plan, communicator.rank());
  constexpr std::byte kGuard{0x5a};
  Buffer from(input.size() + 8 + plan.shift, kGuard);
  Buffer to = from;
  std::copy(input.begin(), input.end(), from.data() + plan.shift);
  Buffer& result = plan.in_place ? from : to;
  const Result<void> outcome =
      communicator.allreduce(from.data() + plan.shift, result.data() + plan.shift, plan.count,
                             plan.type, plan.op, {.scale = plan.scale});
  ASSERT_TRUE(outcome.ok()) << what << ": " << outcome.error().message;
  ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(), result.data() + plan.shift))
      << what << ", rank " << communicator.rank();
  ASSERT_EQ(result[plan.shift + wanted.size()], kGuard) << what;
}

void run(const Hosts& hosts, bool encrypted, const std::function<void(Communicator&)>& body) {
  const int size = static_cast<int>(hosts.size());
  test::run_ranks_on(hosts, SegmentShape::across_hosts(size), true, encrypted, body);
}

void expect_all(const Hosts& hosts, const std::vector<Plan>& plans, bool encrypted = false) {
  std::vector<Buffer> wanted;
  for (const Plan& plan : plans) wanted.push_back(make_reference(hosts, plan));
  run(hosts, encrypted, [&](Communicator& communicator) {
    for (std::size_t i = 0; i < plans.size(); ++i)
      expect_result(communicator, plans[i], wanted[i], describe(hosts, plans[i]));
  });
}

// Lengths that go with the call header, in one step, in one stretch, in several with a rest, and
// over all channels.
const std::vector<std::size_t> kLengths{1, 3, 1000, 8193, 12345, 70001, 250003, 300007};

TEST(AllreduceBetweenHosts, MatchesTheReferenceBitForBitAtEverySize) {
  for (const Hosts& hosts : kPlacements) {
    std::vector<Plan> plans;
    for (const std::size_t count : kLengths) plans.push_back({HVD_FLOAT32, HVD_SUM, count});
    for (const bool encrypted : {false, true}) expect_all(hosts, plans, encrypted);
  }
}

TEST(AllreduceBetweenHosts, SupportsEveryTypeAndOp) {
  for (const Hosts& hosts : {kPlacements[0], kPlacements[2], kPlacements[3]}) {
    std::vector<Plan> plans;
    for (hvd_type type = HVD_UINT8; type <= HVD_BFLOAT16; ++type) {
      for (const hvd_op op : {HVD_SUM, HVD_AVERAGE, HVD_MIN, HVD_MAX, HVD_PRODUCT}) {
        if (type == HVD_BOOL && op == HVD_AVERAGE) continue;
        plans.push_back({type, op, 40001});
      }
    }
    expect_all(hosts, plans);
  }
}

TEST(AllreduceBetweenHosts, SupportsUnalignedBuffers) {
  for (const Hosts& hosts : kPlacements) {
    std::vector<Plan> plans;
    for (const hvd_type type : {HVD_FLOAT32, HVD_FLOAT64, HVD_BFLOAT16}) {
      for (const bool in_place : {false, true})
        plans.push_back(
            {.type = type, .op = HVD_AVERAGE, .count = 40001, .shift = 1, .in_place = in_place});
    }
    expect_all(hosts, plans);
  }
}

TEST(AllreduceBetweenHosts, AppliesFactorsBeforeAndAfterTheSum) {
  for (const Hosts& hosts : kPlacements) {
    std::vector<Plan> plans;
    for (const hvd_type type : {HVD_FLOAT32, HVD_FLOAT64, HVD_FLOAT16, HVD_BFLOAT16}) {
      for (const Scale scale : {Scale{0.1, 1}, Scale{1, 3}, Scale{0.3, 0.7}})
        plans.push_back({.type = type, .op = HVD_SUM, .count = 30011, .scale = scale});
    }
    expect_all(hosts, plans);
  }
}

// A prefix is divided into other stretches and pieces than the whole.
TEST(AllreduceBetweenHosts, GivesTheSameBitsHoweverTheDataIsDivided) {
  for (const Hosts& hosts : kPlacements) {
    const Plan whole{HVD_FLOAT32, HVD_SUM, 150000};
    const Buffer wanted = make_reference(hosts, whole);
    test::run_ranks_on(hosts, [&](Communicator& communicator) {
      for (const std::size_t count : {7u, 2000u, 9000u, 100001u, 150000u}) {
        Buffer values = make_input(whole, communicator.rank());
        ASSERT_TRUE(
            communicator.allreduce(values.data(), values.data(), count, HVD_FLOAT32, HVD_SUM, {})
                .ok());
        ASSERT_EQ(0, std::memcmp(values.data(), wanted.data(), count * sizeof(float)))
            << describe(hosts, whole) << ", of these the first " << count;
      }
    });
  }
}

std::vector<Plan> make_random_plans(std::uint32_t seed, std::size_t count) {
  std::mt19937 random(seed);
  std::vector<Plan> plans;
  for (std::size_t i = 0; i < count; ++i) {
    Plan plan{static_cast<hvd_type>(random() % (HVD_BFLOAT16 + 1)), HVD_SUM, 0};
    const hvd_op ops[] = {HVD_SUM, HVD_MIN, HVD_MAX, HVD_PRODUCT, HVD_AVERAGE};
    plan.op = ops[random() % (plan.type == HVD_BOOL ? 4 : 5)];
    plan.count = random() % (std::size_t{1} << random() % 18);
    plan.shift = random() % 4 == 0 ? random() % 8 : 0;
    plan.in_place = random() % 2 == 0;
    plan.seed = seed * 100 + static_cast<std::uint32_t>(i);
    plans.push_back(plan);
  }
  return plans;
}

// Makes calls on both lanes at the same time; each lane has its own connections.
TEST(AllreduceBetweenHosts, RandomCallsOnBothLanesMatchTheReference) {
  for (std::uint32_t seed = 1; seed <= 3; ++seed) {
    std::mt19937 random(seed);
    Hosts hosts{0, 1};
    while (hosts.size() < 3 + seed) hosts.push_back(static_cast<int>(random() % 3));
    if (std::find(hosts.begin(), hosts.end(), 2) == hosts.end()) hosts.push_back(2);
    const std::vector<Plan> plans[] = {make_random_plans(seed, 40),
                                       make_random_plans(seed + 100, 40)};
    std::vector<Buffer> wanted[2];
    for (std::size_t lane = 0; lane < 2; ++lane) {
      for (const Plan& plan : plans[lane]) wanted[lane].push_back(make_reference(hosts, plan));
    }
    run(hosts, seed == 3, [&](Communicator& communicator) {
      const auto go = [&](Communicator& own, std::size_t lane) {
        for (std::size_t i = 0; i < plans[lane].size(); ++i)
          expect_result(own, plans[lane][i], wanted[lane][i], describe(hosts, plans[lane][i]));
      };
      const auto second = communicator.second();
      std::thread other([&] { go(*second, 1); });
      go(communicator, 0);
      other.join();
      ASSERT_TRUE(communicator.barrier({}).ok());  // no rank leaves before all are done
    });
  }
}

// After each wrong call a right one must work.
TEST(AllreduceBetweenHosts, AfterAMismatchTheNextCallWorks) {
  test::run_ranks_on({0, 0, 1}, [](Communicator& communicator) {
    std::vector<float> values(100000, 1);
    for (int round = 0; round < 3; ++round) {
      const std::size_t count = values.size() - (communicator.rank() == 2 ? 1 : 0);
      const Result<void> outcome = communicator.allreduce(values.data(), values.data(), count,
                                                          HVD_FLOAT32, HVD_MAX, {.name = "grad"});
      ASSERT_FALSE(outcome.ok());
      EXPECT_NE(
          outcome.error().message.find("the count is 100000 on ranks 0-1 and 99999 on rank 2"),
          std::string::npos)
          << outcome.error().message;
      ASSERT_TRUE(communicator
                      .allreduce(values.data(), values.data(), values.size(), HVD_FLOAT32, HVD_MAX,
                                 {.name = "grad"})
                      .ok());
      ASSERT_EQ(values.back(), 1.0f);
    }
  });
}

}  // namespace
}  // namespace libhvd
