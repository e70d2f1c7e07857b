// Wrong calls of one rank. All ranks get the same error, which names the tensor and the ranks, and
// the next call works.
#include "collective/communicator.hpp"
#include "support.hpp"

#include <mutex>
#include <set>

#include <gtest/gtest.h>

namespace libhvd {
namespace {

constexpr int kRanks = 4;

using Call = std::function<Result<void>(Communicator&)>;

// Makes the call on all ranks; all must fail with the same text, which it returns. Then checks that
// a sum works.
std::string error_of(hvd_status status, const Call& call) {
  std::mutex mutex;
  std::set<std::string> messages;
  test::run_ranks_everywhere(kRanks, [&](Communicator& communicator) {
    const Result<void> outcome = call(communicator);
    EXPECT_FALSE(outcome.ok());
    if (outcome.ok()) return;
    EXPECT_EQ(outcome.error().status, status);
    {
      const std::lock_guard lock(mutex);
      messages.insert(outcome.error().message);
    }
    int value = 1;
    EXPECT_TRUE(communicator.allreduce(&value, &value, 1, HVD_INT32, HVD_SUM, {}).ok());
    EXPECT_EQ(value, kRanks);
  });
  EXPECT_EQ(messages.size(), 1u);
  return messages.empty() ? "" : *messages.begin();
}

// The arguments of an allreduce. Those of rank 2 may differ.
struct Arguments {
  std::size_t count = 10;
  hvd_type type = HVD_FLOAT32;
  hvd_op op = HVD_SUM;
  const char* name = "grad.3";
  std::string shape = "[2, 5]";
};

std::string error_of_allreduce(hvd_status status, const Arguments& rank_2) {
  return error_of(status, [&](Communicator& communicator) {
    double buffer[20] = {};
    const Arguments own = communicator.rank() == 2 ? rank_2 : Arguments{};
    return communicator.allreduce(buffer, buffer, own.count, own.type, own.op,
                                  {.name = own.name, .shape = own.shape});
  });
}

TEST(Disagreement, OnCountTypeOpNameOrShapeNamesTheRanks) {
  EXPECT_EQ(error_of_allreduce(HVD_ERROR_MISMATCH, {.count = 12}),
            "allreduce \"grad.3\": the ranks do not agree: the count is 10 on ranks 0-1,3 and 12 "
            "on rank 2");
  EXPECT_EQ(error_of_allreduce(HVD_ERROR_MISMATCH, {.type = HVD_INT32}),
            "allreduce \"grad.3\": the ranks do not agree: the type is float32 on ranks 0-1,3 and "
            "int32 on rank 2");
  EXPECT_EQ(error_of_allreduce(HVD_ERROR_MISMATCH, {.op = HVD_MAX}),
            "allreduce \"grad.3\": the ranks do not agree: the op is sum on ranks 0-1,3 and max on "
            "rank 2");
  EXPECT_EQ(error_of_allreduce(HVD_ERROR_MISMATCH, {.name = "grad.4"}),
            "allreduce \"grad.3\": the ranks do not agree: the name is \"grad.3\" on ranks 0-1,3 "
            "and \"grad.4\" on rank 2");
  EXPECT_EQ(error_of_allreduce(HVD_ERROR_MISMATCH, {.name = nullptr}),
            "allreduce \"grad.3\": the ranks do not agree: the name is \"grad.3\" on ranks 0-1,3 "
            "and none on rank 2");
  EXPECT_EQ(error_of_allreduce(HVD_ERROR_MISMATCH, {.shape = "[5, 2]"}),
            "allreduce \"grad.3\": the ranks do not agree: the shape is [2, 5] on ranks 0-1,3 and "
            "[5, 2] on rank 2");
  EXPECT_EQ(error_of_allreduce(HVD_ERROR_MISMATCH, {.shape = ""}),
            "allreduce \"grad.3\": the ranks do not agree: the shape is [2, 5] on ranks 0-1,3 and "
            "not given on rank 2");
}

TEST(Disagreement, OnTheLastCharacterOfALongNameIsDetected) {
  const std::string name = std::string(300, 'x') + "1";
  EXPECT_NE(error_of(HVD_ERROR_MISMATCH,
                     [&](Communicator& communicator) {
                       const std::string own = communicator.rank() == 1 ? name + "2" : name;
                       return communicator.barrier({own.c_str(), {}});
                     })
                .find("the name is"),
            std::string::npos);
}

TEST(Disagreement, LeavesTheBuffersUnchanged) {
  test::run_ranks_everywhere(kRanks, [&](Communicator& communicator) {
    std::vector<int> values(communicator.rank() == 0 ? 9 : 10, 7);
    EXPECT_FALSE(
        communicator.allreduce(values.data(), values.data(), values.size(), HVD_INT32, HVD_SUM, {})
            .ok());
    EXPECT_EQ(values, std::vector<int>(values.size(), 7));
  });
}

TEST(Disagreement, OnTheCollectiveNamesTheRanks) {
  EXPECT_EQ(
      error_of(HVD_ERROR_MISMATCH,
               [](Communicator& communicator) {
                 int value = 0;
                 if (communicator.rank() == 1) return communicator.barrier({});
                 return communicator.allreduce(&value, &value, 1, HVD_INT32, HVD_SUM, {"a", {}});
               }),
      "the ranks have called different collectives: the call is allreduce \"a\" on ranks "
      "0,2-3 and barrier on rank 1");
}

TEST(Disagreement, OnTheRootNamesTheRanks) {
  EXPECT_EQ(
      error_of(
          HVD_ERROR_MISMATCH,
          [](Communicator& communicator) {
            int value = 0;
            return communicator.broadcast(&value, 1, HVD_INT32, communicator.rank() / 2, {"w", {}});
          }),
      "broadcast \"w\": the ranks do not agree: the root is 0 on ranks 0-1 and 1 on ranks "
      "2-3");
}

TEST(Disagreement, OnTheRowSizeNamesTheRanks) {
  EXPECT_NE(error_of(HVD_ERROR_MISMATCH,
                     [](Communicator& communicator) {
                       int input[6] = {};
                       int output[24];
                       const std::size_t row = communicator.rank() == 3 ? 3 : 2;
                       return communicator.allgather(input, 2, row, HVD_INT32, output, 8, nullptr,
                                                     {});
                     })
                .find("the row size is 2 on ranks 0-2 and 3 on rank 3"),
            std::string::npos);
}

TEST(InvalidCall, OfOneRankIsReportedOnEveryRank) {
  EXPECT_EQ(
      error_of(HVD_ERROR_INVALID_ARGUMENT,
               [](Communicator& communicator) {
                 int value = 0;
                 void* const buffer = communicator.rank() == 2 ? nullptr : &value;
                 return communicator.allreduce(buffer, &value, 1, HVD_INT32, HVD_SUM, {"x", {}});
               }),
      "allreduce \"x\": rank 2: the input is null with a count of 1");
  EXPECT_NE(error_of_allreduce(HVD_ERROR_INVALID_ARGUMENT, {.type = 99}).find("the type 99"),
            std::string::npos);
  EXPECT_NE(error_of_allreduce(HVD_ERROR_INVALID_ARGUMENT, {.op = 6}).find("the op 6"),
            std::string::npos);
  EXPECT_NE(error_of_allreduce(HVD_ERROR_INVALID_ARGUMENT, {.type = HVD_BOOL, .op = HVD_AVERAGE})
                .find("there is no average of bool"),
            std::string::npos);
  EXPECT_NE(error_of_allreduce(HVD_ERROR_INVALID_ARGUMENT, {.count = SIZE_MAX / 2})
                .find("more than any memory holds"),
            std::string::npos);
}

TEST(InvalidCall, OverlappingBuffersAreRefused) {
  EXPECT_NE(error_of(HVD_ERROR_INVALID_ARGUMENT,
                     [](Communicator& communicator) {
                       int values[8] = {};
                       return communicator.allreduce(values, values + 1, 4, HVD_INT32, HVD_SUM, {});
                     })
                .find("overlap"),
            std::string::npos);
}

TEST(InvalidCall, RootThatIsNoRankIsRefused) {
  EXPECT_NE(error_of(HVD_ERROR_INVALID_ARGUMENT,
                     [](Communicator& communicator) {
                       int value = 0;
                       return communicator.broadcast(&value, 1, HVD_INT32, kRanks, {"w", {}});
                     })
                .find("the root 4 is not a rank of 0 to 3"),
            std::string::npos);
}

TEST(InvalidCall, TooSmallOutputIsRefusedButTheRowsAreReturned) {
  EXPECT_EQ(error_of(HVD_ERROR_INVALID_ARGUMENT,
                     [](Communicator& communicator) {
                       const auto own = static_cast<std::size_t>(communicator.rank());
                       const std::vector<int> input(own + 1);
                       std::vector<int> output(10);
                       std::vector<std::size_t> rows(kRanks);
                       auto outcome =
                           communicator.allgather(input.data(), own, 1, HVD_INT32, output.data(),
                                                  own == 1 ? 5 : 6, rows.data(), {"r", {}});
                       EXPECT_EQ(rows, (std::vector<std::size_t>{0, 1, 2, 3}));
                       return outcome;
                     }),
            "allgather \"r\": the output is too small: 6 rows come, but there is room for 5 on "
            "rank 1");
}

}  // namespace
}  // namespace libhvd
