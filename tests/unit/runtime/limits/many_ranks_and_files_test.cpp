// Many ranks, buffers, process sets and open files. The largest numbers run only in the soak test.
#include "bootstrap/authenticated_acceptor.hpp"
#include "reporting.hpp"
#include "seeds.hpp"

#include <numeric>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>

namespace libhvd::test {
namespace {

std::size_t to_size(int number) {
  return static_cast<std::size_t>(number);
}

void expect_ok(const Result<void>& outcome) {
  EXPECT_TRUE(outcome.ok()) << outcome.error().message;
}

// Sums over all ranks. Element i of rank r is r + i.
void reduce(Communicator& communicator, std::size_t count) {
  const int size = communicator.size();
  std::vector<std::int32_t> values(count);
  std::iota(values.begin(), values.end(), communicator.rank());
  expect_ok(communicator.allreduce(values.data(), values.data(), count, HVD_INT32, HVD_SUM, {}));
  const int sum = size * (size - 1) / 2;
  for (const std::size_t i : {std::size_t{0}, count / 2, count - 1})
    EXPECT_EQ(values[i], sum + size * static_cast<int>(i)) << i;
}

void broadcast(Communicator& communicator, std::size_t count) {
  const int root = communicator.size() - 1;
  std::vector<std::int32_t> values(count);
  if (communicator.rank() == root) std::iota(values.begin(), values.end(), 7);
  expect_ok(communicator.broadcast(values.data(), count, HVD_INT32, root, {}));
  for (std::size_t i = 0; i < count; i += 500) ASSERT_EQ(values[i], 7 + static_cast<int>(i));
}

void gather(Communicator& communicator) {
  const std::size_t ranks = to_size(communicator.size());
  const std::vector<std::int32_t> own(3, communicator.rank());
  std::vector<std::int32_t> all(3 * ranks);
  expect_ok(
      communicator.allgather(own.data(), 3, 1, HVD_INT32, all.data(), all.size(), nullptr, {}));
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<int>(i / 3));
}

// The first rank's part has one row more than the others'.
void scatter(Communicator& communicator, std::size_t rows_of_a_rank) {
  const int size = communicator.size();
  const std::size_t rows = rows_of_a_rank * to_size(size) + 1;
  std::vector<std::int32_t> values(rows);
  std::iota(values.begin(), values.end(), communicator.rank());
  const bool first = communicator.rank() == 0;
  std::vector<std::int32_t> own(rows_of_a_rank + (first ? 1 : 0));
  expect_ok(communicator.reducescatter(values.data(), rows, 1, HVD_INT32, HVD_SUM, own.data(), {}));
  const std::size_t begin = rows_of_a_rank * to_size(communicator.rank()) + (first ? 0 : 1);
  for (std::size_t i = 0; i < own.size(); ++i)
    ASSERT_EQ(own[i], size * (size - 1) / 2 + size * static_cast<int>(begin + i));
}

void exchange(Communicator& communicator, std::size_t rows_for_a_rank) {
  const std::size_t ranks = to_size(communicator.size());
  const auto own = static_cast<std::int32_t>(communicator.rank());
  std::vector<std::int32_t> values(rows_for_a_rank * ranks);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = own * 10'000 + static_cast<std::int32_t>(i / rows_for_a_rank);
  std::vector<std::int32_t> got(values.size());
  expect_ok(communicator.alltoall(values.data(), nullptr, values.size(), 1, HVD_INT32, got.data(),
                                  got.size(), nullptr, {}));
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(got[i], static_cast<std::int32_t>(i / rows_for_a_rank) * 10'000 + own);
}

// Sends all rows to the last rank. If it has room for one row less, all ranks get an error.
void overfill_last_rank(Communicator& communicator) {
  const std::size_t ranks = to_size(communicator.size());
  std::vector<std::size_t> splits(ranks, 0);
  splits.back() = 2;
  const std::int32_t rows[2] = {communicator.rank(), 1};
  std::vector<std::int32_t> got(2 * ranks);
  const bool last = communicator.rank() + 1 == communicator.size();
  const Result<void> done = communicator.alltoall(rows, splits.data(), 2, 1, HVD_INT32, got.data(),
                                                  last ? 2 * ranks - 1 : 0, nullptr, {});
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().status, HVD_ERROR_INVALID_ARGUMENT) << done.error().message;
  expect_ok(communicator.alltoall(rows, splits.data(), 2, 1, HVD_INT32, got.data(),
                                  last ? 2 * ranks : 0, nullptr, {}));
  EXPECT_EQ(got[2 * (ranks - 1)], last ? communicator.rank() : 0);
}

// Makes the collectives in which a rank publishes something for each other rank, with little data.
void do_each_collective(Communicator& communicator) {
  reduce(communicator, 1);
  reduce(communicator, 2100);
  broadcast(communicator, 100);
  gather(communicator);
  scatter(communicator, 1);
  exchange(communicator, 1);
}

void do_all_collectives(Communicator& communicator) {
  for (const std::size_t count : {1u, 5u, 1500u, 9000u}) reduce(communicator, count);
  broadcast(communicator, 1);
  broadcast(communicator, 40'000);
  gather(communicator);
  scatter(communicator, 1);
  scatter(communicator, 3);
  scatter(communicator, 40);
  exchange(communicator, 1);
  exchange(communicator, 20);
  if (communicator.size() > 1) overfill_last_rank(communicator);
  expect_ok(communicator.barrier({}));
}

// With 1026 ranks or more, a cache line for each rank is more than an area holds.
TEST(Many, RanksOnOneHostGiveRightResults) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  const std::vector<int> sizes{1, 2, 65};  // a thousand threads would take minutes
#else
  std::vector<int> sizes{1, 2, 1025, 1026};
  if (seeds::soak()) sizes.insert(sizes.end(), {2048, 4096});
#endif
  for (const int size : sizes) {
    SCOPED_TRACE(size);
    const bool few = size < 1000;
    run_ranks_in(SegmentShape(size, 1), few ? do_all_collectives : do_each_collective);
  }
}

std::vector<int> hosts_in_turn(int hosts, int ranks) {
  std::vector<int> of_rank;
  for (int rank = 0; rank < ranks; ++rank) of_rank.push_back(rank % hosts);
  return of_rank;
}

// The areas are as small as with thousands of ranks. They hold a cache line for each of 16 ranks.
TEST(Many, RanksOnSeveralHostsGiveRightResultsInSmallAreas) {
  for (const int size : {2, 3, 17, 18, 40}) {
    for (const bool streams : {true, false}) {
      SCOPED_TRACE(std::to_string(size) + (streams ? " ranks" : " ranks without streams"));
      SegmentShape shape(size);
      shape.chunk = kLeastChunkBytes;
      shape.has_results = false;
      run_ranks_on(hosts_in_turn(2, size), shape, streams, do_all_collectives);
    }
  }
  if (seeds::soak()) {
    constexpr int kRanks = 4096;
    run_ranks_on(hosts_in_turn(8, kRanks), SegmentShape::across_hosts(kRanks, 1), false,
                 do_each_collective);
  }
}

// A sum has the same bits whatever the size of the areas is.
TEST(Many, SmallAreasGiveTheSameBits) {
  constexpr int kRanks = 6;
  for (const std::size_t count : {7u, 700u, 3000u, 20'000u}) {
    std::vector<std::vector<float>> sums;
    for (const std::size_t chunk : {kChunkBytes, kLeastChunkBytes}) {
      SegmentShape shape(kRanks);
      shape.chunk = chunk;
      shape.has_results = chunk == kChunkBytes;
      std::vector<float> sum(count);
      run_ranks_on(hosts_in_turn(2, kRanks), shape, true, [&](Communicator& communicator) {
        std::vector<float> values(count);
        for (std::size_t i = 0; i < count; ++i)
          values[i] = static_cast<float>((i * 7 + to_size(communicator.rank()) * 13) % 1000) / 3;
        expect_ok(
            communicator.allreduce(values.data(), values.data(), count, HVD_FLOAT32, HVD_SUM, {}));
        if (communicator.rank() == 0) sum = values;
      });
      sums.push_back(std::move(sum));
    }
    EXPECT_EQ(sums[0], sums[1]) << count;
  }
}

TEST(Many, SharedBuffersGiveRightSums) {
  const std::size_t buffers = seeds::soak() ? 10'000 : 500;
  constexpr std::size_t kCount = 2500;  // more than 8 KiB
  run_ranks(2, [&](Communicator& communicator) {
    std::vector<std::int32_t*> all;
    for (std::size_t i = 0; i < buffers; ++i) {
      const auto memory = communicator.memory()->own()->allocate(communicator.segment(),
                                                                 kCount * sizeof(std::int32_t));
      ASSERT_TRUE(memory.ok()) << memory.error().message;
      all.push_back(reinterpret_cast<std::int32_t*>(*memory));
    }
    for (int round = 0; round < 2; ++round) {
      for (std::size_t i = 0; i < buffers; ++i) {
        std::fill_n(all[i], kCount, static_cast<std::int32_t>(i) + communicator.rank());
        expect_ok(communicator.allreduce(all[i], all[i], kCount, HVD_INT32, HVD_SUM, {}));
        ASSERT_EQ(all[i][kCount - 1], 2 * static_cast<std::int32_t>(i) + 1);
      }
    }
  });
}

// Sets the soft limit of open files to `more` than are open now.
void allow_open_files(std::size_t more) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::close(next);
  limit.rlim_cur = to_size(next) + more;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::string add_and_use_sets(int sets) {
  std::vector<int> ranks(to_size(hvd::size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const std::string name = "x";
  for (int i = 0; i < sets; ++i) {
    std::int32_t set = 0;
    if (const hvd_status status = hvd_add_process_set(ranks.data(), ranks.size(), &set);
        status != HVD_OK)
      return code_and_text_of(status);
    hvd_options options = named(name);
    options.process_set = set;
    std::vector<float> values(5000, 1);
    if (const hvd_status status = hvd_allreduce(values.data(), values.data(), values.size(),
                                                HVD_FLOAT32, HVD_SUM, &options);
        status != HVD_OK)
      return code_and_text_of(status);
    if (values.back() != static_cast<float>(hvd::size())) return "a wrong sum";
  }
  return "ok";
}

// The sets need more open files than the soft limit at the start allows.
TEST(Many, ProcessSetsMayExceedTheSoftLimitOfOpenFiles) {
  const int sets = seeds::soak() ? 300 : 10;
  for (const std::vector<int>& hosts : {std::vector{0, 0}, std::vector{0, 1}}) {
    Job job(hosts, reporting([&] {
              allow_open_files(24);
              hvd::init();
              const std::string text = add_and_use_sets(sets);
              hvd::shutdown();
              return text;
            }));
    expect_from_all(job, "ok");
  }
}

TEST(Many, OpenFilesOfTheProgramDoNotPreventInit) {
  constexpr std::size_t kFiles = 5000;
  Job job(std::vector{0, 1, 1}, reporting([] {
            allow_open_files(kFiles + 16);
            for (std::size_t i = 0; i < kFiles; ++i) {
              if (::open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
                return std::string("the test cannot open its files");
            }
            hvd::init();
            const std::string text = add_and_use_sets(1);
            hvd::shutdown();
            return text;
          }));
  expect_from_all(job, "ok");
}

// An acceptor that may open no more files fails at once. It does not wait for connections that it
// cannot accept.
TEST(Many, AcceptorFailsAtOnceAtTheLimitOfOpenFiles) {
  Child child([](const Child::Report& report) {
    const auto addresses = resolve("127.0.0.1");
    auto listener = listen_on(addresses->front().with_port(0));
    const Address address = *local_address(listener->get());
    const auto client = connect_to(address, Deadline(std::chrono::seconds(60)));
    if (!client.ok()) return report(client.error().message);
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max = to_size(client->get()) + 1;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    std::vector<Fd> listeners;
    listeners.push_back(std::move(*listener));
    AuthenticatedAcceptor acceptor(std::move(listeners), JobSecret{"test", {1, 2, 3}, 2});
    const auto accepted = acceptor.next(Deadline(std::chrono::hours(1)));
    report(accepted.ok() ? "no error" : accepted.error().message);
  });
  const std::string line = child.line().value_or("nothing");
  EXPECT_NE(line.find("Too many open files"), std::string::npos) << line;
  EXPECT_NE(line.find("ulimit -n"), std::string::npos) << line;
}

}  // namespace
}  // namespace libhvd::test
