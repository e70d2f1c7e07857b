// Large collectives in which ranks read each other's memory directly, and what replaces these reads
// if a rank cannot make them.
#include "collective/direct_reads.hpp"

#include "collective/communicator.hpp"
#include "collective/quicker_way.hpp"
#include "support.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hvd/hvd.hpp>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace libhvd::test::direct {
namespace {

constexpr std::size_t kBytes = 1 << 20;

// Makes `calls` calls of kBytes, and returns which way each took.
std::vector<int> ways(QuickerWay& choice, std::size_t calls, std::uint64_t first_ns,
                      std::uint64_t second_ns) {
  std::vector<int> taken;
  for (std::size_t call = 0; call < calls; ++call) {
    taken.push_back(choice.choose(kBytes));
    choice.record(kBytes, taken.back(), taken.back() == 0 ? first_ns : second_ns);
  }
  return taken;
}

TEST(QuickerWay, TriesBothWaysAndThenUsesTheQuickerOne) {
  for (const int quicker : {0, 1}) {
    QuickerWay choice;
    const auto taken = ways(choice, 10, quicker == 0 ? 100 : 200, quicker == 1 ? 100 : 200);
    std::vector<int> wanted{0, 0, 0, 1, 1, 1};
    wanted.resize(10, quicker);
    EXPECT_EQ(taken, wanted);
  }
}

TEST(QuickerWay, IgnoresTheFirstCallAndDelayedOnes) {
  QuickerWay choice;
  for (const std::uint64_t ns : {90'000, 100, 100, 10, 200, 90'000}) {
    const int way = choice.choose(kBytes);
    choice.record(kBytes, way, ns);
  }
  EXPECT_EQ(choice.choose(kBytes), 0);
  choice.record(kBytes, 0, 150);  // slow, but still quicker than the other way
  EXPECT_EQ(choice.choose(kBytes), 0);
}

TEST(QuickerWay, SwitchesWhenTheOtherWayBecomesQuicker) {
  QuickerWay choice;
  ways(choice, 100, 100, 200);
  const auto taken = ways(choice, 1000, 300, 200);
  EXPECT_EQ(taken.back(), 1);
  const auto second_way = std::accumulate(taken.begin() + 500, taken.end(), 0);
  EXPECT_GE(second_way, 490);
}

TEST(QuickerWay, MeasuresSizesOfDifferentMagnitudeSeparately) {
  QuickerWay choice;
  ways(choice, 10, 200, 100);
  EXPECT_EQ(choice.choose(kBytes), 1);
  EXPECT_EQ(choice.choose(kBytes + 1000), 1);
  EXPECT_EQ(choice.choose(kBytes / 4), 0);
}

using Values = std::vector<std::int32_t>;

// Returns a rank's `count` values of a round, from row `begin` on.
Values values_of(int round, int rank, std::size_t begin, std::size_t count) {
  Values values(count);
  std::iota(values.begin(), values.end(),
            (rank + 1) * 1'000'000 + round * 100'000 + static_cast<int>(begin));
  return values;
}

void append(Values& values, const Values& more) {
  values.insert(values.end(), more.begin(), more.end());
}

constexpr std::size_t kRows = 20'011;

// Rank 1 has too few rows for direct reads.
std::size_t rows_of(int rank) {
  return rank == 1 ? 3 : kRows + static_cast<std::size_t>(rank);
}

void gather(Communicator& communicator, int round) {
  const int own = communicator.rank();
  Values input = values_of(round, own, 0, rows_of(own));
  Values expected;
  for (int rank = 0; rank < communicator.size(); ++rank)
    append(expected, values_of(round, rank, 0, rows_of(rank)));
  Values output(expected.size());
  const auto outcome = communicator.allgather(input.data(), input.size(), 1, HVD_INT32,
                                              output.data(), output.size(), nullptr, {});
  input.assign(input.size(), -1);  // no rank reads it after the call
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  ASSERT_TRUE(output == expected) << "allgather " << round;
}

// Rank r sends kRows / 2 rows to itself, 1 to the next rank, and kRows to each other rank.
void exchange(Communicator& communicator, int round) {
  const int size = communicator.size(), own = communicator.rank();
  const auto splits_of = [&](int rank) {
    std::vector<std::size_t> splits(static_cast<std::size_t>(size), kRows);
    splits[static_cast<std::size_t>(rank)] = kRows / 2;
    splits[static_cast<std::size_t>((rank + 1) % size)] = 1;
    return splits;
  };
  const auto splits = splits_of(own);
  const std::size_t rows = std::accumulate(splits.begin(), splits.end(), std::size_t{0});
  Values input = values_of(round, own, 0, rows);
  Values expected;
  for (int rank = 0; rank < size; ++rank) {
    const auto theirs = splits_of(rank);
    const std::size_t begin = std::accumulate(theirs.begin(), theirs.begin() + own, std::size_t{0});
    append(expected, values_of(round, rank, begin, theirs[static_cast<std::size_t>(own)]));
  }
  Values output(expected.size());
  const auto outcome = communicator.alltoall(input.data(), splits.data(), rows, 1, HVD_INT32,
                                             output.data(), output.size(), nullptr, {});
  input.assign(input.size(), -1);
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  ASSERT_TRUE(output == expected) << "alltoall " << round;
}

void broadcast(Communicator& communicator, int round) {
  const int root = round % communicator.size();
  Values values = values_of(round, communicator.rank(), 0, kRows);
  const auto outcome = communicator.broadcast(values.data(), kRows, HVD_INT32, root, {});
  const bool right = values == values_of(round, root, 0, kRows);
  values.assign(kRows, -1);
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  ASSERT_TRUE(right) << "broadcast " << round;
}

// Makes enough rounds for each root to try both ways.
void all_collectives(Communicator& communicator) {
  for (int round = 0; round < 24; ++round) {
    gather(communicator, round);
    exchange(communicator, round);
    broadcast(communicator, round);
  }
}

TEST(DirectReads, GiveTheSameDataAsChunks) {
  for (const int size : {2, 3, 4}) run_ranks_everywhere(size, all_collectives);
}

// One rank's proof of identity is wrong, as in a container where its pid belongs to another
// process.
TEST(DirectReads, AreReplacedByChunksIfARankCannotRead) {
  for (const int wrong : {0, 2}) {
    run_ranks(3, [&](Communicator& communicator) {
      const auto& segment = communicator.segment();
      if (communicator.rank() == wrong) segment->block(wrong).memory_proof.number ^= 1;
      ASSERT_TRUE(communicator.barrier({}).ok());
      all_collectives(communicator);
    });
  }
}

TEST(DirectReads, AreReplacedByChunksIfARankRefusesThem) {
  for (const int refusing : {0, 2}) {
    run_ranks(3, [&](Communicator& communicator) {
      if (communicator.rank() == refusing) communicator.refuse_direct_reads();
      all_collectives(communicator);
    });
  }
}

TEST(DirectReads, NothingIsOfferedAfterAFailure) {
  auto segment = Segment::anonymous(1);
  ASSERT_TRUE(segment.ok());
  DirectReads reads(std::make_shared<Segment>(std::move(*segment)), 0, 0);
  std::vector<std::byte> data(kBytes);
  EXPECT_NE(reads.offer(Collective::broadcast, data.data(), kBytes), 0u);
  EXPECT_EQ(reads.offer(Collective::broadcast, data.data(), 100), 0u);
  reads.stop();
  EXPECT_EQ(reads.offer(Collective::broadcast, data.data(), kBytes), 0u);
}

// Makes the kernel answer process_vm_readv(2) of this process with `action` (seccomp(2)).
void filter_reads(std::uint32_t action) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};
  ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

// Makes allgathers of 1 MiB in one rank of a job; reports "right", "wrong" or the error.
void gather_in_job(int rank, const Child::Report& report) {
  try {
    hvd::init();
    std::vector<int> own(kBytes / sizeof(int), rank), wanted(own.size(), 0);
    wanted.insert(wanted.end(), own.size(), 1);
    bool right = true;
    for (int call = 0; call < 3; ++call) right = right && hvd::allgather(std::span(own)) == wanted;
    hvd::shutdown();
    report(right ? "right" : "wrong");
  } catch (const hvd::Error& error) {
    report(error.what());
  }
}

// Returns what rank 1 of two reports if its system calls are filtered.
std::optional<std::string> gather_with_filter(std::uint32_t action,
                                              const std::map<std::string, std::string>& variables) {
  const auto body = [action](int rank, const Child::Report& report) {
    if (rank == 1) filter_reads(action);
    gather_in_job(rank, report);
  };
  Job job(2, body, variables);
  return job.rank(1).line();
}

// Runs a rank as the first process of a pid namespace, as in a container.
void gather_in_namespace(int rank, const Child::Report& report) {
  if (::unshare(CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
    return report("the system has no pid namespaces");
  const pid_t child = ::fork();
  if (child == 0) {
    gather_in_job(rank, report);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
}

TEST(DirectReads, AreReplacedByChunksWhereSeccompRefusesThem) {
  EXPECT_EQ(gather_with_filter(SECCOMP_RET_ERRNO | EPERM, {}), "right");
}

TEST(DirectReads, AreNotTriedIfTheEnvironmentTurnsThemOff) {
  EXPECT_EQ(gather_with_filter(SECCOMP_RET_KILL_PROCESS, {{"HVD_DIRECT_READS", "0"}}), "right");
  EXPECT_EQ(gather_with_filter(SECCOMP_RET_KILL_PROCESS, {}), std::nullopt);
}

// Both ranks have pid 1 in their namespace, so each finds itself instead of the other.
TEST(DirectReads, AreReplacedByChunksBetweenPidNamespaces) {
  Job job(2, gather_in_namespace);
  for (int rank = 0; rank < 2; ++rank) {
    const std::string line = job.rank(rank).line().value_or("nothing");
    if (line.find("pid namespaces") != std::string::npos) GTEST_SKIP() << line;
    EXPECT_EQ(line, "right") << "rank " << rank;
  }
}

}  // namespace
}  // namespace libhvd::test::direct
