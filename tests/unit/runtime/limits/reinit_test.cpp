// Repeated sessions of one process leak nothing.
#include "reporting.hpp"
#include "seeds.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <span>
#include <vector>

#include <sys/mman.h>
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

// Returns how many buffers this process has mapped, its own and those of other ranks; see proc(5).
std::size_t mapped_buffers() {
  std::size_t count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    count += line.find("/memfd:hvd") != std::string::npos;
  return count;
}

// Sums two buffers over all ranks in a session, one of them in a process set. Returns how many
// buffers were mapped in the session and after it.
std::string add_in_a_session(std::span<float> of_all, std::span<float> of_set) {
  hvd::init({.process_sets = {{0, 1}}});
  for (const std::span<float> values : {of_all, of_set})
    std::fill(values.begin(), values.end(), 1.0f);
  hvd::allreduce(of_all, hvd::Op::sum);
  hvd::Options in_set("in the set");
  in_set.on = hvd::ProcessSet::from_id(1);
  hvd::allreduce(of_set, hvd::Op::sum, in_set);
  if (of_all.back() != 2 || of_set.back() != 2) return "wrong sum";
  const std::string mapped = std::to_string(mapped_buffers());
  hvd::shutdown();
  return mapped + ", after it " + std::to_string(mapped_buffers()) + "; ";
}

// Each rank has one buffer of hvd_alloc, and later one of hvd_register too.
TEST(Reinit, SharedBuffersAreNotCopiedInLaterSessions) {
  Job job(2, reporting([] {
            hvd::init();
            std::optional<hvd::Buffer<float>> shared(std::in_place, 50'000);
            const std::size_t bytes = 16 * page_bytes();
            hvd::shutdown();
            void* const pages =
                ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            const std::span own(static_cast<float*>(pages), bytes / sizeof(float));
            std::string mapped = add_in_a_session(shared->span(), own);
            hvd::init();
            std::optional<hvd::Registration> registered(std::in_place, std::as_writable_bytes(own));
            hvd::shutdown();
            mapped += add_in_a_session(shared->span(), own) + add_in_a_session(shared->span(), own);
            registered.reset();
            shared.reset();
            return mapped + std::to_string(mapped_buffers());
          }));
  expect_from_all(job, "2, after it 1; 4, after it 2; 4, after it 2; 0");
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
