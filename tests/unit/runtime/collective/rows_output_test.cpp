// Outputs that the caller allocates once the number of rows is known.
#include "collective/communicator.hpp"
#include "support.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hvd/hvd.hpp>

namespace libhvd {
namespace {

using test::Child;
using test::Job;
using test::text_of;

// An allocator of the program. It records its calls.
struct Allocated {
  std::vector<double> values = {};
  std::size_t row_size = 1;
  bool has_memory = true;
  int calls = 0;
  std::size_t rows = 0;
  // The numbers of rows that allocate() copies to `seen`.
  const std::vector<std::size_t>* watched = nullptr;
  std::vector<std::size_t> seen = {};

  static void* allocate(void* context, std::size_t rows) {
    auto& result = *static_cast<Allocated*>(context);
    ++result.calls;
    result.rows = rows;
    if (result.watched != nullptr) result.seen = *result.watched;
    if (!result.has_memory) return nullptr;
    result.values.assign(rows * result.row_size, -1);
    return result.values.data();
  }
  CallOptions options() { return {.name = "x", .allocator = {allocate, this}}; }
};

// The rows that a rank sends to another one have the elements from * 100 + to.
constexpr std::size_t kRow = 2;
std::size_t rows_from_to(int from, int to, std::size_t unit) {
  return unit * static_cast<std::size_t>((from + 2 * to) % 3);
}
void append(std::vector<double>& values, int from, int to, std::size_t unit) {
  values.insert(values.end(), rows_from_to(from, to, unit) * kRow, from * 100 + to);
}

// Input and expected output of one rank: of alltoall if `to_each`, otherwise of allgather.
struct Rows {
  std::vector<double> input = {};
  std::vector<std::size_t> splits = {};
  std::vector<double> wanted = {};
  std::vector<std::size_t> wanted_received = {};
  std::vector<std::size_t> received = {};

  Rows(bool to_each, int own, int size, std::size_t unit) {
    for (int peer = 0; peer < size; ++peer) {
      if (to_each) append(input, own, peer, unit);
      splits.push_back(rows_from_to(own, peer, unit));
      append(wanted, peer, to_each ? own : 0, unit);
      wanted_received.push_back(rows_from_to(peer, to_each ? own : 0, unit));
    }
    if (!to_each) append(input, own, 0, unit);
    received.resize(wanted_received.size());
  }

  Result<void> call(bool to_each, Communicator& communicator, double* output,
                    std::size_t output_rows, const CallOptions& options) {
    const std::size_t rows = input.size() / kRow;
    if (to_each)
      return communicator.alltoall(input.data(), splits.data(), rows, kRow, HVD_FLOAT64, output,
                                   output_rows, received.data(), options);
    return communicator.allgather(input.data(), rows, kRow, HVD_FLOAT64, output, output_rows,
                                  received.data(), options);
  }
};

// Runs the body for both collectives with each number of ranks, on one host and on two.
void on_ranks(const std::vector<int>& sizes,
              const std::function<void(Communicator&, bool to_each, std::size_t unit)>& body) {
  for (const int size : sizes) {
    for (const bool to_each : {false, true}) {
      for (const std::size_t unit : {0u, 1u, 333u, 9000u}) {
        test::run_ranks_everywhere(
            size, [&](Communicator& communicator) { body(communicator, to_each, unit); });
      }
    }
  }
}

TEST(AllocatedOutput, HoldsTheRowsOfAllRanks) {
  on_ranks({1, 2, 5}, [](Communicator& communicator, bool to_each, std::size_t unit) {
    Rows rows(to_each, communicator.rank(), communicator.size(), unit);
    Allocated result{.row_size = kRow, .watched = &rows.received};
    const Result<void> done = rows.call(to_each, communicator, nullptr, 0, result.options());
    ASSERT_TRUE(done.ok()) << done.error().message;
    EXPECT_EQ(result.calls, 1);
    EXPECT_EQ(result.rows, rows.wanted.size() / kRow);
    EXPECT_EQ(result.values, rows.wanted);
    EXPECT_EQ(result.seen, rows.wanted_received)
        << "the numbers of rows are known before the allocation";
  });
}

TEST(AllocatedOutput, WorksWhenOnlySomeRanksAllocate) {
  on_ranks({2, 3}, [](Communicator& communicator, bool to_each, std::size_t unit) {
    Rows rows(to_each, communicator.rank(), communicator.size(), unit);
    Allocated result{.row_size = kRow};
    const bool allocates = communicator.rank() == 1;
    if (!allocates) result.values.resize(rows.wanted.size());
    const Result<void> done = allocates
                                  ? rows.call(to_each, communicator, nullptr, 0, result.options())
                                  : rows.call(to_each, communicator, result.values.data(),
                                              rows.wanted.size() / kRow, {.name = "x"});
    ASSERT_TRUE(done.ok()) << done.error().message;
    EXPECT_EQ(result.calls, allocates ? 1 : 0);
    EXPECT_EQ(result.values, rows.wanted);
    EXPECT_EQ(rows.received, rows.wanted_received);
  });
}

// The others neither wait nor get other data.
TEST(AllocatedOutput, FailsOnlyOnTheRankWithoutMemory) {
  on_ranks({1, 2, 3}, [](Communicator& communicator, bool to_each, std::size_t unit) {
    Rows rows(to_each, communicator.rank(), communicator.size(), unit);
    const bool odd = communicator.rank() == communicator.size() - 1;
    Allocated result{.row_size = kRow, .has_memory = !odd};
    const Result<void> done = rows.call(to_each, communicator, nullptr, 0, result.options());
    EXPECT_EQ(result.calls, 1);
    if (odd && !rows.wanted.empty()) {
      ASSERT_FALSE(done.ok());
      EXPECT_EQ(done.error().status, HVD_ERROR_SYSTEM);
      EXPECT_EQ(done.error().message, std::string(to_each ? "alltoall" : "allgather") +
                                          " \"x\": no memory: hvd_options.allocate gave none for " +
                                          std::to_string(result.rows) + " rows");
    } else {
      ASSERT_TRUE(done.ok()) << done.error().message;
      EXPECT_EQ(result.values, rows.wanted);
    }
    ASSERT_TRUE(communicator.barrier({}).ok());
  });
}

TEST(AllocatedOutput, NeedsNoMemoryForRowsOfSizeZero) {
  test::run_ranks_everywhere(2, [](Communicator& communicator) {
    Allocated result{.has_memory = false};
    std::vector<std::size_t> received(2);
    ASSERT_TRUE(
        communicator
            .allgather(nullptr, 3, 0, HVD_INT32, nullptr, 0, received.data(), result.options())
            .ok());
    EXPECT_EQ(result.calls, 1);
    EXPECT_EQ(result.rows, 6u);
  });
}

TEST(AllocatedOutput, FailsOnTheRankWhereItOverlapsTheInput) {
  test::run_ranks_everywhere(2, [](Communicator& communicator) {
    std::vector<std::int32_t> input{communicator.rank(), 7, 7}, other(2);
    void* place = communicator.rank() == 1 ? input.data() : other.data();
    const CallOptions options{
        .allocator = {[](void* context, std::size_t) { return *static_cast<void**>(context); },
                      &place}};
    const Result<void> done =
        communicator.allgather(input.data(), 1, 1, HVD_INT32, nullptr, 0, nullptr, options);
    if (communicator.rank() == 1) {
      ASSERT_FALSE(done.ok());
      EXPECT_EQ(done.error().status, HVD_ERROR_SYSTEM);
      EXPECT_EQ(done.error().message,
                "allgather: hvd_options.allocate gave memory that overlaps with the input");
      EXPECT_EQ(input, (std::vector<std::int32_t>{1, 7, 7}));
    } else {
      ASSERT_TRUE(done.ok()) << done.error().message;
      EXPECT_EQ(other, (std::vector<std::int32_t>{0, 1}));
    }
  });
}

// Returns the message of a call that fails alike on all ranks, before anything is allocated.
std::string message_of(const std::function<Result<void>(Communicator&, Allocated&)>& call) {
  std::vector<std::string> messages(3);
  test::run_ranks_everywhere(3, [&](Communicator& communicator) {
    Allocated result;
    const Result<void> done = call(communicator, result);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().status, HVD_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(result.calls, 0);
    messages[static_cast<std::size_t>(communicator.rank())] = done.error().message;
    ASSERT_TRUE(communicator.barrier({}).ok());
  });
  for (const std::string& message : messages) EXPECT_EQ(message, messages[0]);
  return messages[0];
}

TEST(AllocatedOutput, TogetherWithAnOutputFailsOnEveryRank) {
  const char* const both =
      " \"x\": rank 1: there is an output, and hvd_options.allocate for another one";
  for (const bool with_rows : {false, true}) {
    EXPECT_EQ(message_of([=](Communicator& communicator, Allocated& result) {
                const double input[3] = {};
                double output[9];
                const bool odd = communicator.rank() == 1;
                return communicator.allgather(input, 1, 1, HVD_FLOAT64,
                                              odd && !with_rows ? output : nullptr,
                                              odd && with_rows ? 3 : 0, nullptr, result.options());
              }),
              std::string("allgather") + both);
    EXPECT_EQ(message_of([=](Communicator& communicator, Allocated& result) {
                const double input[3] = {};
                double output[9];
                const bool odd = communicator.rank() == 1;
                return communicator.alltoall(input, nullptr, 3, 1, HVD_FLOAT64,
                                             odd && !with_rows ? output : nullptr,
                                             odd && with_rows ? 3 : 0, nullptr, result.options());
              }),
              std::string("alltoall") + both);
  }
}

TEST(AllocatedOutput, IsNotAllocatedWhenAnotherRanksOutputIsTooSmall) {
  const auto options = [](Communicator& communicator, Allocated& result) {
    return communicator.rank() == 2 ? CallOptions{.name = "x"} : result.options();
  };
  EXPECT_EQ(message_of([=](Communicator& communicator, Allocated& result) {
              const double input[2] = {};
              double output[5];
              const bool fixed = communicator.rank() == 2;
              return communicator.allgather(input, 2, 1, HVD_FLOAT64, fixed ? output : nullptr,
                                            fixed ? 5 : 0, nullptr, options(communicator, result));
            }),
            "allgather \"x\": the output is too small: 6 rows come, but there is room for 5 on "
            "rank 2");
  EXPECT_EQ(message_of([=](Communicator& communicator, Allocated& result) {
              const double input[3] = {};
              double output[2];
              const bool fixed = communicator.rank() == 2;
              return communicator.alltoall(input, nullptr, 3, 1, HVD_FLOAT64,
                                           fixed ? output : nullptr, fixed ? 2 : 0, nullptr,
                                           options(communicator, result));
            }),
            "alltoall \"x\": the output is too small: 3 rows come, but there is room for 2 on "
            "rank 2");
}

// ---- The C ABI.

hvd_options allocating(Allocated& result, const char* name = nullptr, std::int32_t set = 0) {
  hvd_options options{};
  options.struct_size = sizeof options;
  options.name = name;
  options.process_set = set;
  options.allocate = Allocated::allocate;
  options.allocate_context = &result;
  return options;
}

void expect_from_all(Job& job, const std::vector<std::string>& lines) {
  for (int rank = 0; rank < job.size(); ++rank) {
    for (const std::string& line : lines)
      EXPECT_EQ(job.rank(rank).line().value_or("nothing"), line) << "rank " << rank;
  }
}

const std::vector<std::vector<int>> kOneHostAndTwo{{0, 0, 0}, {0, 1, 1}};

// Gathers r rows of each rank r.
std::string gather(const hvd_options& options, Allocated& result) {
  const std::vector<double> own(static_cast<std::size_t>(hvd::rank()), hvd::rank());
  result.values.clear();
  const hvd_status status =
      hvd_allgather(own.data(), own.size(), 1, HVD_FLOAT64, nullptr, 0, nullptr, &options);
  if (status != HVD_OK) return hvd_last_error();
  return result.values == std::vector<double>{1, 2, 2} ? "ok" : "wrong";
}

TEST(AllocatedOutputAbi, WorksInBlockingAndAsyncCallsAndOnProcessSets) {
  for (const auto& hosts : kOneHostAndTwo) {
    Job job(hosts, [](int rank, const Child::Report& report) {
      hvd::init();
      Allocated result;
      report(gather(allocating(result), result));
      report(gather(allocating(result, "named"), result));

      const int ranks[] = {2, 0};
      std::int32_t set = -1;
      hvd::detail::check(hvd_add_process_set(ranks, 2, &set));
      if (rank == 1) {
        report("ok");
      } else {
        const std::vector<double> own{rank + 0.5, rank + 1.5, rank + 2.5};
        const std::size_t splits[] = {1, 2};
        const hvd_options options = allocating(result, nullptr, set);
        hvd_handle handle = 0;
        hvd_status status = hvd_alltoall_async(own.data(), splits, 3, 1, HVD_FLOAT64, nullptr, 0,
                                               nullptr, &options, &handle);
        if (status == HVD_OK) status = hvd_wait(handle);
        const std::vector<double> wanted =
            rank == 0 ? std::vector<double>{0.5, 2.5} : std::vector<double>{1.5, 2.5, 3.5, 4.5};
        report(status == HVD_OK && result.values != wanted ? "wrong" : text_of(status));
      }
      report(std::to_string(result.calls));
      hvd::shutdown();
    });
    for (int rank = 0; rank < 3; ++rank) {
      for (const char* const line : {"ok", "ok", "ok", rank == 1 ? "2" : "3"})
        EXPECT_EQ(job.rank(rank).line().value_or("nothing"), line) << "rank " << rank;
    }
  }
}

// Several calls are ready together. Only rank 1 gets an error, and the ranks stay in step.
TEST(AllocatedOutputAbi, AsyncCallFailsOnlyOnTheRankWithoutMemory) {
  for (const auto& hosts : kOneHostAndTwo) {
    Job job(hosts, [](int rank, const Child::Report& report) {
      hvd::init();
      std::vector<Allocated> results(6);
      std::vector<hvd_handle> handles;
      float sum = 1;
      const double own = rank;
      for (std::size_t i = 0; i < results.size(); ++i) {
        results[i].has_memory = rank != 1 || i % 2 == 1;
        const std::string name = "x" + std::to_string(i);
        const hvd_options options = allocating(results[i], name.c_str());
        hvd::detail::check(hvd_allgather_async(&own, 1, 1, HVD_FLOAT64, nullptr, 0, nullptr,
                                               &options, &handles.emplace_back()));
      }
      hvd::detail::check(hvd_allreduce_async(&sum, &sum, 1, HVD_FLOAT32, HVD_SUM, nullptr,
                                             &handles.emplace_back()));
      for (std::size_t i = 0; i < handles.size(); ++i) {
        const hvd_status status = hvd_wait(handles[i]);
        if (i < results.size() && !results[i].has_memory) {
          const std::string wanted = "allgather \"x" + std::to_string(i) +
                                     "\": no memory: hvd_options.allocate gave none for 3 rows";
          if (status != HVD_ERROR_SYSTEM || hvd_last_error() != wanted) report(text_of(status));
        } else if (status != HVD_OK) {
          report(hvd_last_error());
        } else if (i < results.size() && results[i].values != std::vector<double>{0, 1, 2}) {
          report("wrong");
        }
      }
      report(sum == 3 ? "ok" : "wrong sum");
      hvd::shutdown();
    });
    expect_from_all(job, {"ok"});
  }
}

TEST(AllocatedOutputAbi, IsRefusedByOtherCollectivesOnEveryRank) {
  Job job(2, [](int rank, const Child::Report& report) {
    hvd::init();
    Allocated result;
    double value = 1, other = 0;
    hvd_options plain{};
    plain.struct_size = sizeof plain;
    plain.name = "x";
    const hvd_options odd = allocating(result, "x");
    const hvd_options* const options = rank == 1 ? &odd : &plain;
    report(text_of(hvd_allreduce(&value, &other, 1, HVD_FLOAT64, HVD_SUM, options)));
    report(text_of(hvd_broadcast(&value, 1, HVD_FLOAT64, 0, options)));
    report(text_of(hvd_reducescatter(&value, 1, 1, HVD_FLOAT64, HVD_SUM, &other, options)));
    report(text_of(hvd_barrier(options)));
    report(result.calls == 0 && other == 0 ? "ok" : "called");
    hvd::shutdown();
  });
  const std::string what =
      " \"x\": rank 1: hvd_options.allocate is for allgather and alltoall only";
  expect_from_all(job, {"allreduce" + what, "broadcast" + what, "reducescatter" + what,
                        "barrier" + what, "ok"});
}

TEST(AllocatedOutputAbi, FailsWhenARankHasJoined) {
  Job job(2, [](int rank, const Child::Report& report) {
    hvd::init();
    Allocated result;
    const hvd_options options = allocating(result, "x");
    const double own = rank;
    if (rank == 1)
      report(text_of(hvd_allgather(&own, 1, 1, HVD_FLOAT64, nullptr, 0, nullptr, &options)));
    hvd::detail::check(hvd_join(nullptr));
    report(result.calls == 0 ? "ok" : "called");
    hvd::shutdown();
  });
  EXPECT_EQ(job.rank(1).line().value_or("nothing"),
            "allgather \"x\": rank 0 has joined, with which only an allreduce with sum or average "
            "can go on");
  expect_from_all(job, {"ok"});
}

// Programs that were built with an older hvd_options, and with a newer one that has more fields.
TEST(AllocatedOutputAbi, AcceptsOldOptionsAndRefusesUnknownFields) {
  Job job(2, [](int, const Child::Report& report) {
    hvd::init();
    Allocated result;
    double value = 1, all[2] = {};
    hvd_options before = allocating(result);
    before.struct_size = offsetof(hvd_options, allocate);
    report(text_of(hvd_allgather(&value, 1, 1, HVD_FLOAT64, all, 2, nullptr, &before)));
    report(text_of(hvd_allreduce(&value, &value, 1, HVD_FLOAT64, HVD_SUM, &before)));
    struct {
      hvd_options options;
      void* more = nullptr;
    } later{allocating(result)};
    later.options.struct_size = sizeof later;
    report(text_of(hvd_allgather(&value, 1, 1, HVD_FLOAT64, nullptr, 0, nullptr, &later.options)));
    report(result.calls == 1 && all[1] == 1 && result.values[1] == 2 ? "right" : "wrong");
    later.more = &later;
    report(text_of(hvd_allgather(&value, 1, 1, HVD_FLOAT64, nullptr, 0, nullptr, &later.options)));
    hvd::shutdown();
  });
  const std::string unknown = "hvd_options asks for what this version of libhvd cannot do";
  expect_from_all(
      job, {"ok", "ok", "ok", "right", "allgather: rank 0: " + unknown + "; rank 1: " + unknown});
}

}  // namespace
}  // namespace libhvd
