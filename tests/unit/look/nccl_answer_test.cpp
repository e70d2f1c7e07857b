#include "look/nccl_answer.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

std::string rank_json(int rank, int all_reduces, const std::string& flag = "abort_flag") {
  const auto is = [&](const std::string& name) {
    return "\"" + name + "\": " + (name == flag && flag != "abort_flag" ? "true" : "false");
  };
  return R"({"rank": )" + std::to_string(rank) + R"(, "host": "10.0.0.2", "pid": )" +
         std::to_string(100 + rank) + R"(, "cuda_dev": 0, "nvml_dev": 0, "status": {)" +
         R"("init_state": 0, "async_error": 0, )" + is("finalize_called") + ", " +
         is("destroy_flag") + ", " + is("abort_flag") +
         R"(}, "collective_count)"
         "s\": {"
         R"("Broadcast": 1, "AllReduce": )" +
         std::to_string(all_reduces) + "}}";
}

std::string missing_json(bool unresponsive) {
  return R"({"rank": 2, "host": "10.0.0.3", "pid": 7, "cuda_dev": 0, "nvml_dev": 0, "status": )"
         R"({"unresponsive": )" +
         std::string(unresponsive ? "true" : "false") + R"(, "considered_dead": false}})";
}

std::string answer_json(const std::string& ranks, const std::string& missing = "") {
  return R"({"nccl_version": "2.29.1", "communicators_count": 1, "communicators": [{"hash": "0xa",)"
         R"("secondary_hash": "0xb:0xc", "size": 2, "ranks": [)" +
         ranks + R"(], "missing_ranks": [)" + missing +
         R"(]}], "ras": {"collection_time_sec": 0.001, "timeouts_count": 0}})";
}

TEST(NcclAnswer, JsonHasTheCallsOfEachRank) {
  const auto found = parse_nccl_answer(answer_json(rank_json(0, 5) + "," + rank_json(1, 4)));
  ASSERT_TRUE(found);
  ASSERT_THAT(*found, SizeIs(1));
  EXPECT_EQ((*found)[0].id, "0xa:0xb:0xc");
  ASSERT_THAT((*found)[0].members, SizeIs(2));
  const auto& late = (*found)[0].members[1];
  EXPECT_EQ(late.rank, 1);
  EXPECT_EQ(late.host, "10.0.0.2");
  EXPECT_EQ(late.pid, 101);
  EXPECT_THAT(late.calls, ElementsAre(Pair("AllReduce", 4), Pair("Broadcast", 1)));
  EXPECT_EQ(parse_nccl(nccl_json(*found)), found);
}

TEST(NcclAnswer, ACommunicatorThatIsEvenOrBeginsOrEndsIsLeftOut) {
  EXPECT_THAT(parse_nccl_answer(answer_json(rank_json(0, 5) + "," + rank_json(1, 5))),
              ::testing::Optional(IsEmpty()));
  for (const auto* flag : {"finalize_called", "destroy_flag"})
    EXPECT_THAT(parse_nccl_answer(answer_json(rank_json(0, 5) + "," + rank_json(1, 4, flag))),
                ::testing::Optional(IsEmpty()));
  EXPECT_THAT(parse_nccl_answer(answer_json(rank_json(0, 5), missing_json(false))),
              ::testing::Optional(IsEmpty()));
  EXPECT_THAT(parse_nccl_answer(R"({"communicators": []})"), ::testing::Optional(IsEmpty()));
}

TEST(NcclAnswer, ARankThatDoesNotAnswerIsSilent) {
  const auto found = parse_nccl_answer(answer_json(rank_json(0, 5), missing_json(true)));
  ASSERT_TRUE(found);
  ASSERT_THAT(*found, SizeIs(1));
  EXPECT_FALSE((*found)[0].members[0].silent);
  EXPECT_TRUE((*found)[0].members[1].silent);
  EXPECT_EQ((*found)[0].members[1].pid, 7);
  EXPECT_EQ(parse_nccl(nccl_json(*found)), found);
}

TEST(NcclAnswer, OtherTextIsNoAnswer) {
  const auto whole = answer_json(rank_json(0, 5) + "," + rank_json(1, 4));
  for (const auto& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("{}"),
        std::string("HTTP/1.1 400 Bad Request\r\n"), whole.substr(0, whole.size() / 2),
        std::string(R"({"communicators": 3})"), std::string(R"({"communicators": [3]})"),
        std::string(R"({"communicators": [{"hash": 1, "ranks": [], "missing_ranks": []}]})"),
        std::string(R"({"communicators": [{"hash": "1", "ranks": [{"rank": "x"}]}]})"),
        std::string("NCCL version 2.26.2 compiled with CUDA 12.8\n")})
    EXPECT_FALSE(parse_nccl_answer(text)) << text;
  for (const auto* line : {"", "{}", "{\"nccl\": 3}", "{\"nccl\": [{}]}", "{\"nccl\""})
    EXPECT_FALSE(parse_nccl(line)) << line;
}

const std::string kBegin =
    "NCCL version 2.26.2 compiled with CUDA 12.8\nCUDA runtime version 12080, driver version "
    "12080\n\nJob summary\n===========\n\n  Nodes  Processes\n      1          8\n\n"
    "Communicators... (0.00s)\n=============\n\nGroup     Comms\n    #  in group\n    0        "
    "1\n\n"
    "Errors\n======\n\n";
const std::string kWarnings = "\nWarnings\n========\n\n";

std::vector<NcclCommunicator> in_text(const std::string& errors, const std::string& warnings) {
  return parse_nccl_answer(kBegin + errors + kWarnings + warnings)
      .value_or(std::vector<NcclCommunicator>(99));
}

TEST(NcclAnswer, TextNamesTheRanksOfTheSmallerGroup) {
  const auto found =
      in_text("",
              "#0-0 (27a079b828ff1a75) MISMATCH\n"
              "  Communicator ranks have different AllReduce operation count"
              "s\n"
              "  6 ranks have launched up to operation 6650\n"
              "  2 ranks have launched up to operation 6649\n"
              "  Rank 0 -- GPU 0 (NVML 3) managed by process 483072 on node 172.16.64.210\n"
              "  Rank 5 -- GPU 5 managed by process 483077 on node 172.16.64.210\n\n");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "27a079b828ff1a75");
  ASSERT_THAT(found[0].members, SizeIs(8));
  EXPECT_EQ(found[0].members[1].pid, 483077);
  EXPECT_EQ(found[0].members[1].host, "172.16.64.210");
  EXPECT_EQ(found[0].members[1].calls.at("AllReduce"), 6649U);
  EXPECT_EQ(found[0].members[7].pid, -1);
  EXPECT_EQ(found[0].members[7].calls.at("AllReduce"), 6650U);
}

TEST(NcclAnswer, TextHasASingleRankInItsOwnWords) {
  for (const auto& [words, count] : {std::pair{"has launched up to operation 6", 6U},
                                     std::pair{"has not launched any operations", 0U}}) {
    const auto found =
        in_text("",
                "#0-0 (1) MISMATCH\n  Communicator ranks have different collective operation count"
                "s\n"
                "  3 ranks have launched up to operation 7\n  Rank 3 " +
                    std::string(words) + " -- GPU 3 managed by process 12 on node n\n\n");
    ASSERT_THAT(found, SizeIs(1));
    ASSERT_THAT(found[0].members, SizeIs(4));
    EXPECT_EQ(found[0].members[0].calls.at("collective"), count);
  }
}

TEST(NcclAnswer, TextOfSeveralFunctionsIsPutTogether) {
  const auto found = in_text(
      "",
      "#0-0 (1) MISMATCH\n"
      "  Communicator ranks have different Broadcast operation count"
      "s\n"
      "  3 ranks have not launched any operations\n"
      "  Rank 3 has launched up to operation 1 -- GPU 3 managed by process 12 on node n\n\n"
      "  Communicator ranks have different AllReduce operation count"
      "s\n"
      "  3 ranks have launched up to operation 7\n"
      "  Rank 3 has launched up to operation 6 -- GPU 3 managed by process 12 on node n\n\n");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].members[0].calls, ElementsAre(Pair("AllReduce", 6), Pair("Broadcast", 1)));
  EXPECT_THAT(found[0].members[1].calls, ElementsAre(Pair("AllReduce", 7), Pair("Broadcast", 0)));
}

TEST(NcclAnswer, TextThatLeavesOpenWhoIsLateIsLeftOut) {
  const std::string begin =
      "#0-0 (1) MISMATCH\n  Communicator ranks have different AllReduce operation count"
      "s\n";
  for (const auto* rest :
       {"  2 ranks have launched up to operation 7\n  2 ranks have launched up to operation 6\n",
        "  3 ranks have launched up to operation 7\n  Rank 0 -- [process information not found]\n",
        "  99999999999 ranks have launched up to operation 7\n", "  ? ranks\n",
        "  Rank 0 -- GPU 0 managed by process 1 on node n\n"})
    EXPECT_THAT(in_text("", begin + rest + "\n"), IsEmpty()) << rest;
  EXPECT_THAT(in_text("",
                      "#0-0 (1) MISMATCH\n  Communicator ranks have different status\n"
                      "  3 ranks have status RUNNING\n  Rank 0 has status FINALIZE -- GPU 0 "
                      "managed by process 1 on node n\n\n"),
              IsEmpty());
  EXPECT_THAT(in_text("#0-0 (1) ERROR\n  Asynchronous error on 1 rank\n\n",
                      begin + "  3 ranks have launched up to operation 7\n  Rank 3 has launched up "
                              "to operation 6 -- GPU 3 managed by process 12 on node n\n\n"),
              IsEmpty());
}

TEST(NcclAnswer, TextNamesRanksThatDoNotAnswer) {
  const auto found = in_text(
      "INCOMPLETE\n  Missing communicator data from 1 job process\n"
      "  Process 9 on node n managing GPU 5\n\n"
      "#0-0 (1) INCOMPLETE\n  Missing communicator data from 1 rank\n"
      "  Rank 5 -- GPU 5 managed by process 9 on node n\n\n",
      "TIMEOUT\n  Encountered 2 communication timeouts\n\n");
  ASSERT_THAT(found, SizeIs(1));
  ASSERT_THAT(found[0].members, SizeIs(1));
  EXPECT_TRUE(found[0].members[0].silent);
  EXPECT_EQ(found[0].members[0].pid, 9);
}

}  // namespace
}  // namespace hvdrun
