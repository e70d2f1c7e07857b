// A rank is killed at a random moment while all run random collectives, blocking and in the
// background. The others must hear of it from whatever they wait for, name it, and have nothing
// left when they have shut down.
//
// Each round is made from its seed alone. How far the others are at that moment is chance.
#include "seeds.hpp"
#include "support.hpp"

#include <array>
#include <memory>
#include <random>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>
#include <hvd/hvd.hpp>
#include <poll.h>

namespace libhvd::test {
namespace {

int rounds() {
  if (seeds::soak()) return 500;
  return seeds::are_new() ? 20 : 3;
}

// What one collective works on. Lives until nobody can be in the middle of it any more.
struct Buffers {
  std::vector<float> input = std::vector<float>(70'000, 1);
  std::vector<float> output = std::vector<float>(300'000);
};

// The same on all ranks for the same random numbers.
hvd_status run_blocking(std::mt19937& random, Buffers& buffers) {
  const std::size_t count = random() % 3 == 0 ? 70'000 : 1 + random() % 500;
  float* const in = buffers.input.data();
  float* const out = buffers.output.data();
  const auto size = static_cast<std::size_t>(hvd_size());
  switch (random() % 6) {
    case 0:
      return hvd_broadcast(in, count, HVD_FLOAT32, static_cast<int>(count % size), nullptr);
    case 1:
      return hvd_allgather(in, count / 2, 1, HVD_FLOAT32, out, 300'000, nullptr, nullptr);
    case 2:
      return hvd_reducescatter(in, count, 1, HVD_FLOAT32, HVD_MAX, out, nullptr);
    case 3:
      return hvd_alltoall(in, nullptr, count / size * size, 1, HVD_FLOAT32, out, 300'000, nullptr,
                          nullptr);
    case 4:
      return hvd_barrier(nullptr);
    default:
      return hvd_allreduce(in, out, count, HVD_FLOAT32, HVD_SUM, nullptr);
  }
}

// Some at once, in an order of each rank's own, then waits for all of them. The first error counts.
hvd_status run_in_background(std::mt19937& random, std::mt19937& own,
                             std::vector<Buffers>& buffers) {
  std::array<std::size_t, 8> order{0, 1, 2, 3, 4, 5, 6, 7};
  std::array<std::size_t, 8> counts{};
  for (auto& count : counts) count = random() % 4 == 0 ? 50'000 : 1 + random() % 300;
  std::shuffle(order.begin(), order.end(), own);
  std::array<hvd_handle, 8> handles{};
  hvd_status first = HVD_OK;
  const auto keep = [&first](hvd_status status) { first = first == HVD_OK ? status : first; };
  for (const std::size_t i : order) {
    const std::string name = "t" + std::to_string(i);
    hvd_options options{};
    options.struct_size = sizeof options;
    options.name = name.c_str();
    float* const values = buffers[i].input.data();
    keep(i % 3 == 0 ? hvd_broadcast_async(values, counts[i], HVD_FLOAT32, 0, &options, &handles[i])
                    : hvd_allreduce_async(values, values, counts[i], HVD_FLOAT32, HVD_MIN, &options,
                                          &handles[i]));
  }
  for (const hvd_handle handle : handles) {
    if (handle != 0) keep(hvd_wait(handle));
  }
  return first;
}

// Until it fails. A rank tells that it is on its way, what ended it, and what it has left.
void run_until_failure(std::uint64_t seed, int rank, const Child::Tell& tell) {
  std::thread([] {}).join();  // With the first thread the thread sanitizer starts one of its own.
  const std::size_t files = entries_in("/proc/self/fd");
  const std::size_t threads = count_threads();
  if (hvd_init() != HVD_OK) return tell(hvd_last_error());
  std::mt19937 random(seed), own(seed * 100 + static_cast<unsigned>(rank));
  std::vector<Buffers> buffers(9);
  hvd_status status = HVD_OK;
  for (int call = 0; status == HVD_OK; ++call) {
    if (call == 2) tell("on its way");
    status = random() % 3 == 0 ? run_in_background(random, own, buffers)
                               : run_blocking(random, buffers[8]);
  }
  tell(std::to_string(status) + " " + hvd_last_error());
  const hvd_status again = hvd_barrier(nullptr);
  tell(again == HVD_ERROR_PEER ? "still" : std::to_string(again));
  if (hvd_shutdown() != HVD_OK) return tell(hvd_last_error());
  const std::size_t threads_now = count_threads(threads);
  const std::size_t files_now = entries_in("/proc/self/fd");
  const bool clean = files_now == files && threads_now <= threads;
  tell(clean ? "clean"
             : std::to_string(files) + " descriptors and " + std::to_string(threads) +
                   " threads became " + std::to_string(files_now) + " and " +
                   std::to_string(threads_now));
}

// One round: kills a rank at a moment of chance, and hears what the others say.
void kill_one(const std::vector<int>& hosts, std::uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 chance(seed);
  Job job(hosts, [&](int rank, const Child::Tell& tell) { run_until_failure(seed, rank, tell); });
  for (int rank = 0; rank < job.size(); ++rank)
    ASSERT_EQ(job.rank(rank).line().value_or("nothing"), "on its way");
  const int victim = static_cast<int>(chance() % hosts.size());
  const std::string named =
      "rank " + std::to_string(victim) + " (pid " + std::to_string(job.rank(victim).pid());
  ::poll(nullptr, 0, static_cast<int>(chance() % 20));  // the moment of chance, not a wait for it
  job.rank(victim).kill();
  for (int rank = 0; rank < job.size(); ++rank) {
    if (rank == victim) continue;
    const std::string error = job.rank(rank).line().value_or("nothing");
    EXPECT_TRUE(error.starts_with(std::to_string(HVD_ERROR_PEER) + " ") &&
                error.find(named) != std::string::npos)
        << "rank " << rank << " does not name " << named << ": " << error;
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), "still") << "rank " << rank;
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), "clean") << "rank " << rank;
  }
  for (const int host : hosts) EXPECT_TRUE(job.memory(host).entries().empty());
}

void kill_again_and_again(const std::vector<int>& hosts) {
  for (int round = 0; round < rounds() && !testing::Test::HasFailure(); ++round)
    kill_one(hosts, seeds::seed(static_cast<std::uint64_t>(round)));
}

TEST(SuddenDeath, OnOneHost) {
  kill_again_and_again({0, 0, 0, 0});
}

TEST(SuddenDeath, OnTwoHosts) {
  kill_again_and_again({0, 1, 0, 1});
}

}  // namespace
}  // namespace libhvd::test
