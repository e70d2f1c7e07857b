// Calls without elements, unaligned buffers, long names, and many tensors at once.
#include "reporting.hpp"

#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace libhvd::test {
namespace {

// Makes every blocking collective without elements, and with null for buffers.
std::string make_empty_calls() {
  std::vector<std::size_t> zeros(static_cast<std::size_t>(hvd::size()));
  std::vector<std::size_t> rows(zeros.size(), 7);
  const hvd_status statuses[] = {
      hvd_allreduce(nullptr, nullptr, 0, HVD_FLOAT32, HVD_SUM, nullptr),
      hvd_broadcast(nullptr, 0, HVD_INT64, 1, nullptr),
      hvd_allgather(nullptr, 0, 3, HVD_FLOAT16, nullptr, 0, rows.data(), nullptr),
      hvd_reducescatter(nullptr, 0, 5, HVD_FLOAT64, HVD_AVERAGE, nullptr, nullptr),
      hvd_alltoall(nullptr, zeros.data(), 0, 2, HVD_UINT8, nullptr, 0, nullptr, nullptr)};
  for (const hvd_status status : statuses) {
    if (status != HVD_OK) return code_and_text_of(status);
  }
  return rows == zeros ? "ok" : "allgather has returned rows";
}

std::string make_empty_async_calls() {
  hvd_handle handles[5] = {};
  const hvd_status statuses[] = {
      hvd_allreduce_async(nullptr, nullptr, 0, HVD_FLOAT32, HVD_SUM, nullptr, &handles[0]),
      hvd_broadcast_async(nullptr, 0, HVD_INT64, 1, nullptr, &handles[1]),
      hvd_allgather_async(nullptr, 0, 3, HVD_FLOAT16, nullptr, 0, nullptr, nullptr, &handles[2]),
      hvd_reducescatter_async(nullptr, 0, 5, HVD_FLOAT64, HVD_AVERAGE, nullptr, nullptr,
                              &handles[3]),
      hvd_alltoall_async(nullptr, nullptr, 0, 2, HVD_UINT8, nullptr, 0, nullptr, nullptr,
                         &handles[4])};
  for (const hvd_status status : statuses) {
    if (status != HVD_OK) return code_and_text_of(status);
  }
  for (const hvd_handle handle : handles) {
    if (const hvd_status status = hvd_wait(handle); status != HVD_OK)
      return code_and_text_of(status);
  }
  return "ok";
}

TEST(Sizes, EmptyCallsSucceed) {
  for (const std::vector<int>& hosts : {std::vector{0, 0, 0}, std::vector{0, 1, 0}}) {
    Job job(hosts, reporting([] {
              hvd::init();
              std::string text = make_empty_calls();
              if (text == "ok") text = make_empty_async_calls();
              // Rank 0 contributes no rows, the other ranks some.
              std::vector<int> own(static_cast<std::size_t>(hvd::rank()), hvd::rank());
              const auto all = hvd::allgather(std::span(own));
              if (all != std::vector{1, 2, 2}) text = "wrong rows";
              hvd::shutdown();
              return text;
            }));
    expect_from_all(job, "ok");
  }
}

// Sums floats at an odd address over two ranks, in place.
std::string sum_at(std::size_t offset, std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  std::vector<std::byte> memory(count * sizeof(float) + offset);
  std::byte* const odd = memory.data() + offset;
  std::memcpy(odd, values.data(), count * sizeof(float));
  const hvd_status status = hvd_allreduce(odd, odd, count, HVD_FLOAT32, HVD_SUM, nullptr);
  if (status != HVD_OK) return code_and_text_of(status);
  std::memcpy(values.data(), odd, count * sizeof(float));
  for (std::size_t i = 0; i < count; ++i) {
    if (values[i] != 2 * static_cast<float>(i + 1)) return "wrong at " + std::to_string(i);
  }
  return "ok";
}

TEST(Sizes, BuffersMayBeUnaligned) {
  Job job(2, reporting([] {
            hvd::init();
            std::string text = "ok";
            for (const std::size_t offset : {1u, 2u, 3u, 5u, 63u}) {
              for (const std::size_t count : {1u, 9u, 1000u, 100'003u}) {
                const std::string sum = sum_at(offset, count);
                if (sum != "ok") text = std::to_string(offset) + ": " + sum;
              }
            }
            hvd::shutdown();
            return text;
          }));
  expect_from_all(job, "ok");
}

TEST(Sizes, AlignmentMayDifferBetweenRanks) {
  Job job(2, reporting([] {
            hvd::init();
            const auto offset = static_cast<std::size_t>(hvd::rank());
            std::string text = sum_at(offset, 100'003);
            hvd::shutdown();
            return text;
          }));
  expect_from_all(job, "ok");
}

std::string sum_blocking_and_async(const std::string& name) {
  const hvd_options options = named(name);
  int value = hvd::rank() + 1;
  hvd_status status = hvd_allreduce(&value, &value, 1, HVD_INT32, HVD_SUM, &options);
  if (status != HVD_OK) return code_and_text_of(status);
  hvd_handle handle = 0;
  status = hvd_allreduce_async(&value, &value, 1, HVD_INT32, HVD_SUM, &options, &handle);
  if (status == HVD_OK) status = hvd_wait(handle);
  if (status != HVD_OK) return code_and_text_of(status);
  return value == 6 ? "ok" : "wrong sum";
}

TEST(Sizes, NamesMayHave10KB) {
  Job job(2, reporting([] {
            hvd::init();
            std::string text = sum_blocking_and_async(std::string(10'240, 'n'));
            hvd::shutdown();
            return text;
          }));
  expect_from_all(job, "ok");
}

// Each rank submits the two tensors in another order.
TEST(Sizes, LongNamesMayDifferOnlyInTheirLastByte) {
  Job job(2, reporting([] {
            hvd::init();
            std::vector<int> values{1, 100};
            std::vector<hvd_handle> handles(2);
            std::string text = "ok";
            for (int turn = 0; turn < 2; ++turn) {
              const auto which = static_cast<std::size_t>((turn + hvd::rank()) % 2);
              std::string name(10'240, 'n');
              name.back() = which == 0 ? 'a' : 'b';
              const hvd_options options = named(name);
              const hvd_status status = hvd_allreduce_async(
                  &values[which], &values[which], 1, HVD_INT32, HVD_SUM, &options, &handles[which]);
              if (status != HVD_OK) text = code_and_text_of(status);
            }
            for (const hvd_handle handle : handles) {
              const hvd_status status = hvd_wait(handle);
              if (status != HVD_OK) text = code_and_text_of(status);
            }
            hvd::shutdown();
            return text + " " + std::to_string(values[0]) + " " + std::to_string(values[1]);
          }));
  expect_from_all(job, "ok 2 200");
}

// Submits more tensors at once than any program has, in a different order on each rank.
TEST(Sizes, AHundredThousandTensorsMayBePending) {
  constexpr std::size_t kTensors = 100'000;
  Job job(2, reporting([] {
            hvd::init();
            std::vector<float> values(kTensors);
            for (std::size_t i = 0; i < kTensors; ++i) values[i] = static_cast<float>(i % 1000);
            std::vector<std::size_t> order(kTensors);
            std::iota(order.begin(), order.end(), 0u);
            std::mt19937 random(static_cast<unsigned>(hvd::rank()));
            std::shuffle(order.begin(), order.end(), random);
            std::vector<hvd_handle> handles(kTensors);
            for (const std::size_t i : order) {
              const std::string name = "t" + std::to_string(i);
              const hvd_options options = named(name);
              const hvd_status status = hvd_allreduce_async(&values[i], &values[i], 1, HVD_FLOAT32,
                                                            HVD_SUM, &options, &handles[i]);
              if (status != HVD_OK) return code_and_text_of(status);
            }
            for (const hvd_handle handle : handles) {
              if (const hvd_status status = hvd_wait(handle); status != HVD_OK)
                return code_and_text_of(status);
            }
            for (std::size_t i = 0; i < kTensors; ++i) {
              if (values[i] != 2 * static_cast<float>(i % 1000))
                return "wrong at " + std::to_string(i);
            }
            hvd::shutdown();
            return std::string("ok");
          }));
  expect_from_all(job, "ok");
}

}  // namespace
}  // namespace libhvd::test
