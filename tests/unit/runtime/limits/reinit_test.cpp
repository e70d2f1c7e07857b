// Repeated sessions of one process leak nothing.
#include "reporting.hpp"
#include "seeds.hpp"

#include <algorithm>
#include <fstream>
#include <vector>

#include <unistd.h>

namespace libhvd::test {
namespace {

// Returns how many sessions to run. Short runs compare exact numbers only; long ones also see the
// memory grow.
int rounds(int many) {
  return seeds::are_new() ? many : many / 5;
}

// By how much the allocator may let a process grow. Sanitizers keep freed memory; the address
// sanitizer looks for leaks itself. qemu keeps 280 KiB of every thread that has ended.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(HVD_TEST_EMULATOR)
constexpr std::size_t kGrowthKib = 1024 * 1024;
#else
constexpr std::size_t kGrowthKib = 4 * 1024;
#endif

// The resources of this process; see proc(5).
struct Resources {
  std::size_t files = entries_in("/proc/self/fd");
  std::size_t threads = count_threads();
  std::size_t shared_mappings = 0;  // the heap's private ones change
  std::size_t resident_kib = 0;

  Resources() {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      // "7f2c000-7f2d000 rw-s 00000000 00:1a 77 /dev/shm/…"
      shared_mappings += line.find(" rw-s ") != std::string::npos;
    }
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("VmRSS:")) resident_kib = std::stoul(line.substr(6));
    }
  }
};

// Runs a session with blocking and async calls, and with memory of hvd_alloc.
std::string one_session(int round, const std::vector<int>& ranks = {}) {
  hvd::init({.ranks = ranks});
  const int sum = hvd::allreduce(round, hvd::Op::sum);
  hvd::Buffer<float> shared(50'000);
  hvd::allreduce(shared.span(), hvd::Op::sum, "shared");
  std::vector<float> one(3, 1), two(20'000, 1);
  auto first = hvd::allreduce_async(std::span(one), hvd::Op::sum, "one");
  auto second = hvd::allreduce_async(std::span(two), hvd::Op::sum, "two");
  first.wait();
  second.wait();
  const auto size = static_cast<float>(hvd::size());
  const bool right = sum == round * hvd::size() && one[2] == size && two[19'999] == size;
  hvd::shutdown();
  return right ? "" : "wrong sum in round " + std::to_string(round);
}

std::string compare(const Resources& before, const Resources& after) {
  std::string text;
  const auto expect_same = [&](const char* what, std::size_t then, std::size_t now) {
    if (now != then)
      text += std::to_string(then) + " " + what + " became " + std::to_string(now) + "; ";
  };
  expect_same("descriptors", before.files, after.files);
  if (const std::size_t threads = count_threads(before.threads); threads > before.threads)
    expect_same("threads", before.threads, threads);
  expect_same("shared mappings", before.shared_mappings, after.shared_mappings);
  if (seeds::are_new() && after.resident_kib > before.resident_kib + kGrowthKib)
    text += "the process grew from " + std::to_string(before.resident_kib) + " to " +
            std::to_string(after.resident_kib) + " KiB";
  return text.empty() ? "ok" : text;
}

std::string run_sessions(int sessions) {
  for (int round = 0; round < 3; ++round) {  // the first ones fill the allocator's caches
    if (const std::string wrong = one_session(round); !wrong.empty()) return wrong;
  }
  const Resources before;
  for (int round = 0; round < sessions; ++round) {
    if (const std::string wrong = one_session(round); !wrong.empty()) return wrong;
  }
  return compare(before, Resources());
}

TEST(Reinit, RepeatedSessionsLeakNothing) {
  for (const std::vector<int>& hosts : {std::vector{0}, std::vector{0, 0}}) {
    Job job(hosts, reporting([] { return run_sessions(rounds(100)); }));
    expect_from_all(job, "ok");
    EXPECT_TRUE(job.memory().entries().empty());
  }
}

// Runs sessions of all ranks and of some of them in turn.
std::string run_mixed_sessions(int rank, int sessions) {
  const std::vector<std::vector<int>> starts{{}, {1, 2}, {}, {2, 0}};
  const auto take_part = [&](int round) -> std::string {
    const auto& ranks = starts[static_cast<std::size_t>(round) % starts.size()];
    const bool in = ranks.empty() || std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
    return in ? one_session(round, ranks) : "";
  };
  for (int round = 0; round < 8; ++round) {
    if (const std::string wrong = take_part(round); !wrong.empty()) return wrong;
  }
  const Resources before;
  for (int round = 0; round < sessions; ++round) {
    if (const std::string wrong = take_part(round); !wrong.empty()) return wrong;
  }
  return compare(before, Resources());
}

TEST(Reinit, SessionsOfAllAndOfSomeRanksLeakNothing) {
  Job job(3, [](int rank, const Child::Report& report) {
    report(run_mixed_sessions(rank, rounds(100)));
  });
  expect_from_all(job, "ok");
  EXPECT_TRUE(job.memory().entries().empty());
}

TEST(Reinit, SessionsOnTwoHostsLeakNothing) {
  Job job({0, 1, 0}, reporting([] { return run_sessions(rounds(20)); }));
  expect_from_all(job, "ok");
  EXPECT_TRUE(job.memory(0).entries().empty());
  EXPECT_TRUE(job.memory(1).entries().empty());
}

// hvd_shutdown gives up pending calls, with their names and buffers.
TEST(Reinit, PendingCallsAtShutdownLeakNothing) {
  Job job(2, reporting([] {
            const auto session = [] {
              hvd::init();
              std::vector<float> values(2000, 1);
              hvd_handle handle = 0;
              const std::string name =
                  "of rank " + std::to_string(hvd::rank());  // matches no other call
              const hvd_options options = named(name);
              (void)hvd_allreduce_async(values.data(), values.data(), values.size(), HVD_FLOAT32,
                                        HVD_SUM, &options, &handle);
              hvd::barrier();
              hvd::shutdown();
            };
            for (int round = 0; round < 3; ++round) session();
            const Resources before;
            for (int round = 0; round < rounds(50); ++round) session();
            return compare(before, Resources());
          }));
  expect_from_all(job, "ok");
}

}  // namespace
}  // namespace libhvd::test
