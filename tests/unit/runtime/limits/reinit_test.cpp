// Repeated sessions of one process leak nothing.
#include "reporting.hpp"
#include "resources.hpp"
#include "seeds.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <span>
#include <vector>

#include <hvd/checkpoint.hpp>
#include <sys/mman.h>
#include <unistd.h>

namespace libhvd::test {
namespace {

// Returns how many sessions to run. Short runs compare exact numbers only; long ones also see the
// memory grow.
int rounds(int many) {
  return seeds::are_new() ? many : many / 5;
}

// What a program keeps from session to session.
struct Lasting {
  TemporaryFolder* folder = nullptr;  // of checkpoints; null: there are none
  std::optional<hvd::Buffer<float>> buffer = {};
  std::optional<hvd::Checkpoints> checkpoints = {};

  // Uses all of it. Returns what is wrong.
  std::string use(int round) {
    if (!buffer) buffer.emplace(30'000);
    std::fill(buffer->span().begin(), buffer->span().end(), 1.0f);
    hvd::allreduce(buffer->span(), hvd::Op::sum, "lasting");
    if ((*buffer)[29'999] != static_cast<float>(hvd::size())) return "wrong sum of the buffer";
    if (folder == nullptr) return "";
    if (!checkpoints) checkpoints.emplace(folder->path(), hvd::CheckpointOptions{.keep_last = 1});
    hvd::State state;
    state.add("round", round);
    checkpoints->save(state, static_cast<std::uint64_t>(round));
    return "";
  }
};

// Runs a session with blocking and async calls, with memory of hvd_alloc, and a handle that
// nothing waits for.
std::string one_session(int round, Lasting& lasting, const std::vector<int>& ranks = {}) {
  hvd::init({.ranks = ranks});
  const int sum = hvd::allreduce(round, hvd::Op::sum);
  hvd::Buffer<float> shared(50'000);
  hvd::allreduce(shared.span(), hvd::Op::sum, "shared");
  std::vector<float> one(3, 1), two(20'000, 1);
  auto first = hvd::allreduce_async(std::span(one), hvd::Op::sum, "one");
  auto second = hvd::allreduce_async(std::span(two), hvd::Op::sum, "two");
  hvd_handle forgotten = 0;
  const hvd_options options = named("forgotten");
  (void)hvd_allreduce_async(one.data(), one.data(), 1, HVD_FLOAT32, HVD_MAX, &options, &forgotten);
  first.wait();
  second.wait();
  if (const std::string wrong = lasting.use(round); !wrong.empty()) return wrong;
  const auto size = static_cast<float>(hvd::size());
  const bool right = sum == round * hvd::size() && one[2] == size && two[19'999] == size;
  hvd::shutdown();
  return right ? "" : "wrong sum in round " + std::to_string(round);
}

std::string run_sessions(int sessions, TemporaryFolder* folder) {
  Lasting lasting{folder};
  for (int round = 0; round < sessions; ++round) {
    if (std::string wrong = one_session(round, lasting); !wrong.empty()) return wrong;
  }
  return "";
}

std::string run_sessions_and_compare(int sessions, TemporaryFolder* folder = nullptr) {
  std::string wrong = run_sessions(3, folder);  // the first ones fill the allocator's caches
  const Resources before;
  if (wrong.empty()) wrong = run_sessions(sessions, folder);
  return wrong.empty() ? compare(before, Resources()) : wrong;
}

// Leaves nothing in the folder of shared memory, and of the checkpoints the lock and the last one.
void expect_no_leak(const std::vector<int>& hosts, int sessions) {
  TemporaryFolder folder;
  Job job(hosts, reporting([&] { return run_sessions_and_compare(sessions, &folder); }));
  expect_from_all(job, "ok");
  for (int rank = 0; rank < job.size(); ++rank) job.rank(rank).wait();
  EXPECT_TRUE(job.memory().entries().empty());
  EXPECT_EQ(folder.entries().size(), 2u);
}

TEST(Reinit, RepeatedSessionsLeakNothing) {
  expect_no_leak({0}, rounds(100));
  expect_no_leak({0, 0}, rounds(100));
}

TEST(Reinit, AThousandSessionsLeakNothing) {
  expect_no_leak({0, 0}, 1000);
}

// Runs sessions of all ranks and of some of them in turn.
std::string run_mixed_sessions(int rank, int sessions) {
  const std::vector<std::vector<int>> starts{{}, {1, 2}, {}, {2, 0}};
  Lasting lasting;
  const auto take_part = [&](int round) -> std::string {
    const auto& ranks = starts[static_cast<std::size_t>(round) % starts.size()];
    const bool in = ranks.empty() || std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
    return in ? one_session(round, lasting, ranks) : "";
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
  Job job({0, 1, 0}, reporting([] { return run_sessions_and_compare(rounds(20)); }));
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
