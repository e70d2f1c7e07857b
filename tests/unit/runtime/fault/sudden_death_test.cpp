// A rank is killed at a random moment while all run random collectives, blocking and async. The
// others must get an error that names it, wherever they wait, and must leave nothing after
// shutdown.
//
// Each round depends on its seed only, except for how far the ranks are at that moment.
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

// The buffers of one collective. They live until no rank can access them.
struct Buffers {
  std::vector<float> input = std::vector<float>(70'000, 1);
  std::vector<float> output = std::vector<float>(300'000);
};

// Makes a random collective, the same one on all ranks.
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

// Makes several async collectives, in a different order on each rank, and waits for all. Returns
// the first error.
hvd_status run_in_background(std::mt19937& random, std::mt19937& own,
                             std::vector<Buffers>& buffers) {
  std::array<std::size_t, 8> order{0, 1, 2, 3, 4, 5, 6, 7};
  std::array<std::size_t, 8> lengths{};
  for (auto& count : lengths) count = random() % 4 == 0 ? 50'000 : 1 + random() % 300;
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
    keep(i % 3 == 0 ? hvd_broadcast_async(values, lengths[i], HVD_FLOAT32, 0, &options, &handles[i])
                    : hvd_allreduce_async(values, values, lengths[i], HVD_FLOAT32, HVD_MIN,
                                          &options, &handles[i]));
  }
  for (const hvd_handle handle : handles) {
    if (handle != 0) keep(hvd_wait(handle));
  }
  return first;
}

// Makes collectives until one fails. Reports that it runs, then the error, then what it has leaked.
void run_until_failure(std::uint64_t seed, int rank, const Child::Report& report) {
  std::thread([] {}).join();  // With the first thread the thread sanitizer starts one of its own.
  const std::size_t files = entries_in("/proc/self/fd");
  const std::size_t threads = count_threads();
  if (hvd_init() != HVD_OK) return report(hvd_last_error());
  std::mt19937 random(seed), own(seed * 100 + static_cast<unsigned>(rank));
  std::vector<Buffers> buffers(9);
  hvd_status status = HVD_OK;
  for (int call = 0; status == HVD_OK; ++call) {
    if (call == 2) report("running");
    status = random() % 3 == 0 ? run_in_background(random, own, buffers)
                               : run_blocking(random, buffers[8]);
  }
  report(std::to_string(status) + " " + hvd_last_error());
  const hvd_status again = hvd_barrier(nullptr);
  report(again == HVD_ERROR_PEER ? "still" : std::to_string(again));
  if (hvd_shutdown() != HVD_OK) return report(hvd_last_error());
  const std::size_t threads_now = count_threads(threads);
  const std::size_t files_now = entries_in("/proc/self/fd");
  const bool clean = files_now == files && threads_now <= threads;
  report(clean ? "clean"
               : std::to_string(files) + " descriptors and " + std::to_string(threads) +
                     " threads became " + std::to_string(files_now) + " and " +
                     std::to_string(threads_now));
}

// Runs one round: kills a rank at a random moment, and checks what the others report.
void kill_one(const std::vector<int>& hosts, std::uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 chance(seed);
  Job job(hosts,
          [&](int rank, const Child::Report& report) { run_until_failure(seed, rank, report); });
  for (int rank = 0; rank < job.size(); ++rank)
    ASSERT_EQ(job.rank(rank).line().value_or("nothing"), "running");
  const int victim = static_cast<int>(chance() % hosts.size());
  const std::string named =
      "rank " + std::to_string(victim) + " (pid " + std::to_string(job.rank(victim).pid());
  ::poll(nullptr, 0, static_cast<int>(chance() % 20));  // a random moment; nothing is awaited
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

void run_rounds(const std::vector<int>& hosts) {
  for (int round = 0; round < rounds() && !testing::Test::HasFailure(); ++round)
    kill_one(hosts, seeds::seed(static_cast<std::uint64_t>(round)));
}

TEST(SuddenDeath, OfOneRankIsReportedByTheOthersOnOneHost) {
  run_rounds({0, 0, 0, 0});
}

TEST(SuddenDeath, OfOneRankIsReportedByTheOthersOnTwoHosts) {
  run_rounds({0, 1, 0, 1});
}

}  // namespace
}  // namespace libhvd::test
