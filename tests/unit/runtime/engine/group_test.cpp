// Several allreduces in one call (hvd_grouped_allreduce).
#include "collective/group.hpp"

#include "submit.hpp"

#include <hvd/hvd.hpp>

namespace libhvd::test {
namespace {

AllreduceGroup group_of(std::vector<std::vector<float>>& tensors) {
  AllreduceGroup group{{}, {}, {}, HVD_FLOAT32, HVD_SUM};
  for (auto& tensor : tensors) {
    group.inputs.push_back(tensor.data());
    group.outputs.push_back(tensor.data());
    group.lengths.push_back(tensor.size());
  }
  return group;
}

TEST(Group, SumsSmallAndLargeTensors) {
  run_ranks_everywhere(3, [](Communicator& communicator) {
    std::vector<std::vector<float>> tensors;
    for (std::size_t i = 0; i < 40; ++i)
      tensors.emplace_back(i % 7 == 3 ? 10'000 + i : i * 30, static_cast<float>(i));
    ASSERT_EQ(message_of(allreduce_group(communicator, group_of(tensors), {})), "");
    for (std::size_t i = 0; i < tensors.size(); ++i)
      EXPECT_EQ(tensors[i], std::vector<float>(tensors[i].size(), static_cast<float>(3 * i)));
    std::vector<std::vector<float>> none;
    EXPECT_EQ(message_of(allreduce_group(communicator, group_of(none), {})), "");
  });
}

TEST(Group, MismatchFailsAndLeavesTheBuffersUnchanged) {
  run_ranks_everywhere(3, [](Communicator& communicator) {
    const bool odd = communicator.rank() == 1;
    std::vector<std::vector<float>> tensors(3, std::vector<float>(5, 1));
    if (odd) {
      tensors[1].resize(4, 1);
      tensors[2].resize(6, 1);
    }
    EXPECT_EQ(message_of(allreduce_group(communicator, group_of(tensors), {.name = "g"})),
              "grouped_allreduce \"g\": the ranks do not agree: the list of counts is one on ranks "
              "0,2 and another on rank 1");
    if (odd) tensors.pop_back();
    EXPECT_EQ(
        message_of(allreduce_group(communicator, group_of(tensors), {.name = "g"})),
        "grouped_allreduce \"g\": the ranks do not agree: the number of tensors is 3 on ranks "
        "0,2 and 2 on rank 1");
    tensors.assign(3, std::vector<float>(5, 1));
    AllreduceGroup group = group_of(tensors);
    if (odd) group.inputs[2] = nullptr;
    EXPECT_EQ(message_of(allreduce_group(communicator, group, {.name = "g"})),
              "grouped_allreduce \"g\": rank 1: tensor 2: the input is null with a count of 5");
    EXPECT_EQ(tensors[0][0], 1);
  });
}

TEST(GroupAbi, WorksInBlockingAndAsyncCalls) {
  Job job(2, [](int rank, const Child::Report& report) {
    hvd::init();
    std::vector<double> a(3, rank + 1.0), b(2000, 1.0);
    const void* inputs[] = {a.data(), b.data()};
    void* outputs[] = {a.data(), b.data()};
    const std::size_t lengths[] = {a.size(), b.size()};
    hvd::detail::check(
        hvd_grouped_allreduce(2, inputs, outputs, lengths, HVD_FLOAT64, HVD_SUM, nullptr));
    hvd_handle handle = 0;
    hvd::detail::check(hvd_grouped_allreduce_async(2, inputs, outputs, lengths, HVD_FLOAT64,
                                                   HVD_AVERAGE, nullptr, &handle));
    hvd::detail::check(hvd_wait(handle));
    report(std::to_string(static_cast<int>(a[2] * 10 + b[1999])));
    // The other rank, whose call is right, gets the error too.
    const std::size_t* const own = rank == 1 ? nullptr : lengths;
    const auto text_of = [](hvd_status status) {
      return status == HVD_OK ? std::string("ok") : hvd_last_error();
    };
    report(text_of(hvd_grouped_allreduce(2, inputs, outputs, own, HVD_FLOAT64, HVD_SUM, nullptr)));
    hvd::detail::check(hvd_grouped_allreduce_async(2, inputs, outputs, own, HVD_FLOAT64, HVD_SUM,
                                                   nullptr, &handle));
    report(text_of(hvd_wait(handle)));
    hvd::shutdown();
  });
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), "32");
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"),
              "grouped_allreduce: rank 1: a list is null");
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"),
              "grouped_allreduce \"grouped_allreduce #2\": rank 1: a list is null");
  }
}

}  // namespace
}  // namespace libhvd::test
