// The C++ API with several ranks: futures of all collectives, and outputs in the caller's memory.
#include "expect_right.hpp"
#include "support.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hvd/hvd.hpp>

namespace libhvd::test {
namespace {

using Ints = std::vector<std::int32_t>;
using Sizes = std::vector<std::size_t>;

// Returns the input of a rank: rank + 1 values of the rank.
Ints rows_of(int rank) {
  return Ints(static_cast<std::size_t>(rank) + 1, rank);
}

Ints all_rows(int size) {
  Ints all;
  for (int rank = 0; rank < size; ++rank) {
    const Ints rows = rows_of(rank);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

TEST(Futures, ReturnTheResults) {
  expect_right(3, [](int rank) -> std::string {
    Ints sum{1, rank};
    const Ints input{rank, rank};
    Ints output(2);
    std::vector<float> first(2, 1), second(3, 2);
    const std::vector<std::span<float>> group{first, second};
    std::vector<double> root{static_cast<double>(rank)};
    const Ints own = rows_of(rank);
    Ints seven(7);
    std::iota(seven.begin(), seven.end(), 0);

    auto in_place = hvd::allreduce_async(std::span(sum), hvd::Op::sum, "in place");
    auto from_input = hvd::allreduce_async(input, std::span(output), hvd::Op::max, "from input");
    auto grouped = hvd::grouped_allreduce_async(std::span(group), hvd::Op::average, "group");
    auto broadcast = hvd::broadcast_async(std::span(root), 2, "root");
    auto gathered = hvd::allgather_async(std::span(own), "rows");
    auto part = hvd::reducescatter_async(std::span(seven), hvd::Op::sum, "part");
    hvd::Future<Ints> moved;
    {
      const Sizes splits(3, 1);  // may be destroyed before get()
      moved = hvd::alltoall_async(std::span(input).first(0), Sizes(3, 0), "none");
      moved = hvd::alltoall_async(std::span(seven).first(3), splits, "one each");
    }
    hvd::barrier_async("barrier").get();
    in_place.wait();
    from_input.wait();
    grouped.get();
    broadcast.get();
    if (sum != Ints{3, 3} || output != Ints{2, 2}) return "allreduce";
    if (first != std::vector<float>(2, 1) || second != std::vector<float>(3, 2)) return "group";
    if (root[0] != 2) return "broadcast";
    gathered.wait();  // get() works after it
    if (gathered.get() != all_rows(3) || gathered.valid()) return "allgather";
    const Ints parts[] = {{0, 3, 6}, {9, 12}, {15, 18}};
    if (part.get() != parts[rank]) return "reducescatter";
    if (moved.get() != Ints(3, rank)) return "alltoall";
    return "";
  });
}

// Blocking and async calls with a span for the output return the numbers of rows.
TEST(Futures, WriteToTheCallersMemory) {
  expect_right(2, [](int rank) -> std::string {
    const Ints own = rows_of(rank);
    const Sizes rows{1, 2};
    Ints all(4, -1);  // the last element stays unused
    if (hvd::allgather(own, std::span(all)) != rows) return "rows of allgather";
    if (all != Ints{0, 1, 1, -1}) return "allgather";
    all.assign(4, -1);
    if (hvd::allgather_async(own, std::span(all), "rows").get() != rows)
      return "rows of allgather_async";
    if (all != Ints{0, 1, 1, -1}) return "allgather_async";

    const Ints three{1, 2, 3};
    const Ints parts[] = {{2, 4}, {6, -1}};
    Ints part(2, -1);
    hvd::reducescatter(three, std::span(part), hvd::Op::sum);
    if (part != parts[rank]) return "reducescatter";
    part.assign(2, -1);
    hvd::reducescatter_async(three, std::span(part), hvd::Op::sum, "part").wait();
    if (part != parts[rank]) return "reducescatter_async";

    const Sizes splits{1, 2};
    const Ints values{rank, rank + 10, rank + 10};
    Ints received(4, -1);
    const Sizes expected_rows(2, rank == 0 ? 1 : 2);
    const Ints expected = rank == 0 ? Ints{0, 1, -1, -1} : Ints{10, 10, 11, 11};
    if (hvd::alltoall(values, splits, std::span(received)) != expected_rows)
      return "rows of alltoall";
    if (received != expected) return "alltoall";
    received.assign(4, -1);
    if (hvd::alltoall_async(values, splits, std::span(received), "x").get() != expected_rows)
      return "rows of alltoall_async";
    return received == expected ? "" : "alltoall_async";
  });
}

TEST(Futures, WaitForHasATimeLimit) {
  using std::chrono::hours, std::chrono::milliseconds;
  Signal go;
  expect_right(2, [&](int rank) -> std::string {
    std::vector<float> values{1};
    if (rank == 1) go.await();
    auto sum = hvd::allreduce_async(std::span(values), hvd::Op::sum, "late");
    if (rank == 0) {
      if (sum.wait_for(milliseconds(0)) || sum.wait_for(milliseconds(20))) return "done too early";
      if (sum.wait_for(milliseconds(-1)) || sum.done()) return "done too early";
      go.notify();
    }
    if (!sum.wait_for(hours(1'000'000))) return "not done";
    if (!sum.wait_for(milliseconds(0)) || !sum.done()) return "no longer done";
    sum.get();
    if (values[0] != 2) return "wrong sum";
    // After many waits in a row, the waiting threads do the engine's work. wait_for() must do it
    // too.
    for (int call = 0; call < 50; ++call)
      hvd::allreduce_async(std::span(values), hvd::Op::max, "habit").wait();
    auto last = hvd::allreduce_async(std::span(values), hvd::Op::max, "last");
    if (!last.wait_for(hours(1))) return "the last is not done";
    last.wait();
    return "";
  });
}

TEST(Futures, ReportErrors) {
  expect_right(2, [](int rank) -> std::string {
    std::vector<float> values(rank == 0 ? 2 : 3);
    auto differs = hvd::allreduce_async(std::span(values), hvd::Op::sum, "layer3");
    if (error_of([&] { differs.get(); }).find("layer3") == std::string::npos) return "no mismatch";
    auto gathered = hvd::allgather_async(std::span(values), hvd::Options("gathered"));
    gathered.get();
    if (error_of([&] { gathered.get(); }).empty()) return "a second result";
    hvd::Future<> none;
    if (none.valid() || error_of([&] { none.wait(); }).empty()) return "waited for nothing";
    if (error_of([&] { none.wait_for(std::chrono::seconds(1)); }).empty()) return "no handle";
    const auto nan = std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN());
    auto barrier = hvd::barrier_async("b");
    if (error_of([&] { barrier.wait_for(nan); }).find("not a number") == std::string::npos)
      return "waited for NaN";
    barrier.wait();
    const Ints three{1, 2, 3};
    Ints small(1);
    // The output is large enough on rank 1.
    if (error_of([&] {
          hvd::reducescatter(three, std::span(small), hvd::Op::sum);
        }).find("rank 0: the output has no room for this rank's part") == std::string::npos)
      return "a part that does not fit";
    Ints two(2);
    const std::span<int> shorter(two.data(), rank == 1 ? 1 : 2);
    if (error_of([&] {
          hvd::allreduce_async(std::span<const int>(two), shorter, hvd::Op::sum, "two").wait();
        }).find("rank 1: input and output differ in length") == std::string::npos)
      return "lengths";
    if (error_of([&] {
          hvd::alltoall_async(std::span(three), Sizes(3, 1)).wait();
        }).find("one number per rank") == std::string::npos)
      return "splits";
    hvd::Options shape("shaped");
    shape.shape = rank == 0 ? "[2, 3]" : "[3, 2]";
    std::vector<float> six(6);
    if (error_of([&] { hvd::allreduce(std::span(six), hvd::Op::sum, shape); }).find("[3, 2]") ==
        std::string::npos)
      return "shapes";
    hvd::Options on_gpu("vector");
    on_gpu.memory = hvd::Memory::cuda;
    if (error_of([&] { hvd::allgather(std::span(six), on_gpu); }).find("need a span") ==
        std::string::npos)
      return "a vector in GPU memory";
    return "";
  });
}

}  // namespace
}  // namespace libhvd::test
