// One rank of what tests/gpu/run runs: `count` prints how many GPUs there are; `check` holds
// collectives on device memory against what they must give; `bench CALLS BYTES` prints how long
// they take, up to so many bytes, beside NCCL called directly on the same stream. A rank uses
// device HVD_LOCAL_RANK modulo their number.
#include "copies.hpp"
#include "device.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include <hvd/hvd.h>

namespace gpu_check {
namespace {

hvd_options on(const Device& device, const char* name) {
  hvd_options options{};
  options.struct_size = sizeof options;
  options.name = name;
  options.memory = HVD_CUDA;
  options.stream = device.stream();
  return options;
}

void check(hvd_status status, const char* what) {
  if (status != HVD_OK) die(what, hvd_last_error());
}

template <class T>
void expect(const std::vector<T>& got, const std::function<T(std::size_t)>& expected,
            const char* what) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] != expected(i)) die(what, ("element " + std::to_string(i) + " is wrong").c_str());
  }
}

// The sum over all ranks of rank + 1.
template <class T>
T sum_of_ranks() {
  const int sum = hvd_size() * (hvd_size() + 1) / 2;
  return static_cast<T>(sum);
}

template <class T>
void check_allreduce(Device& device, hvd_type type, std::size_t count, const char* name) {
  const std::vector<T> input(count, static_cast<T>(hvd_rank() + 1));
  void* const memory = device.allocate(count * sizeof(T));
  device.write(memory, input);
  const hvd_options options = on(device, name);
  check(hvd_allreduce(memory, memory, count, type, HVD_SUM, &options), name);
  expect<T>(
      device.read<T>(memory, count), [](std::size_t) { return sum_of_ranks<T>(); }, name);
}

void check_factors(Device& device) {
  float* const memory = static_cast<float*>(device.allocate(4));
  device.write(memory, std::vector<float>{static_cast<float>(hvd_rank() + 1)});
  hvd_options options = on(device, "factors");
  options.prescale = 0.5;
  options.postscale = 4;
  check(hvd_allreduce(memory, memory, 1, HVD_FLOAT32, HVD_SUM, &options), "factors");
  expect<float>(
      device.read<float>(memory, 1), [](std::size_t) { return 2 * sum_of_ranks<float>(); },
      "factors");
}

// Adasum of equal tensors is that tensor, and of tensors without a common element their sum.
void check_adasum(Device& device, std::size_t count) {
  if ((hvd_size() & (hvd_size() - 1)) != 0) return;
  const auto value = [](std::size_t i) { return static_cast<float>(i % 7 + 1); };
  std::vector<float> equal(count), own(count, 0);
  for (std::size_t i = 0; i < count; ++i) equal[i] = value(i);
  const auto size = static_cast<std::size_t>(hvd_size());
  for (auto i = static_cast<std::size_t>(hvd_rank()); i < count; i += size) own[i] = value(i);
  const hvd_options options = on(device, "adasum");
  void* const memory = device.allocate(count * sizeof(float));
  for (const std::vector<float>& input : {equal, own}) {
    device.write(memory, input);
    check(hvd_allreduce(memory, memory, count, HVD_FLOAT32, HVD_ADASUM, &options), "adasum");
    expect<float>(device.read<float>(memory, count), value, "adasum");
  }
}

void check_rows(Device& device) {
  const auto size = static_cast<std::size_t>(hvd_size());
  const auto rank = static_cast<std::size_t>(hvd_rank());
  const std::size_t own = rank + 1, total = size * (size + 1) / 2;
  void* const input = device.allocate(own * 4);
  void* const output = device.allocate(total * 4);
  device.write(input, std::vector<std::int32_t>(own, static_cast<std::int32_t>(rank)));
  const hvd_options options = on(device, "rows");
  check(hvd_allgather(input, own, 1, HVD_INT32, output, total, nullptr, &options), "allgather");
  std::vector<std::int32_t> expected;
  for (std::size_t from = 0; from < size; ++from)
    expected.insert(expected.end(), from + 1, static_cast<std::int32_t>(from));
  expect<std::int32_t>(
      device.read<std::int32_t>(output, total), [&](std::size_t i) { return expected[i]; },
      "allgather");

  void* const mixed = device.allocate(size * 4);
  void* const numbers = device.allocate(size * 4);
  device.write(numbers, std::vector<std::int32_t>(size, static_cast<std::int32_t>(rank)));
  check(hvd_alltoall(numbers, nullptr, size, 1, HVD_INT32, mixed, size, nullptr, &options),
        "alltoall");
  expect<std::int32_t>(
      device.read<std::int32_t>(mixed, size),
      [](std::size_t i) { return static_cast<std::int32_t>(i); }, "alltoall");

  void* const share = device.allocate(8);
  check(hvd_reducescatter(output, total, 1, HVD_INT32, HVD_SUM, mixed, &options), "reducescatter");
  check(hvd_broadcast(share, 2, HVD_INT32, hvd_size() - 1, &options), "broadcast");
}

void check_background(Device& device) {
  std::vector<hvd_handle> handles(8);
  std::vector<void*> memory;
  for (std::size_t i = 0; i < handles.size(); ++i) {
    memory.push_back(device.allocate(4000));
    device.write(memory[i], std::vector<float>(1000, static_cast<float>(hvd_rank() + 1)));
  }
  for (std::size_t i = 0; i < handles.size(); ++i) {
    const std::size_t own = hvd_rank() % 2 == 0 ? i : handles.size() - 1 - i;
    const std::string name = "layer" + std::to_string(own);
    const hvd_options options = on(device, name.c_str());
    check(hvd_allreduce_async(memory[own], memory[own], 1000, HVD_FLOAT32, HVD_SUM, &options,
                              &handles[own]),
          "allreduce_async");
  }
  for (std::size_t i = 0; i < handles.size(); ++i) {
    check(hvd_wait(handles[i]), "wait");
    expect<float>(
        device.read<float>(memory[i], 1000), [](std::size_t) { return sum_of_ranks<float>(); },
        "allreduce_async");
  }
}

void check_all(Device& device, std::size_t most) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, most}) {
    check_allreduce<float>(device, HVD_FLOAT32, count, "float32");
    check_allreduce<double>(device, HVD_FLOAT64, count, "float64");
    check_allreduce<std::int32_t>(device, HVD_INT32, count, "int32");
    check_allreduce<std::int64_t>(device, HVD_INT64, count, "int64");
    check_allreduce<std::uint8_t>(device, HVD_UINT8, count, "uint8");
    check_allreduce<std::int16_t>(device, HVD_INT16, count, "int16");
  }
  check_factors(device);
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, most})
    check_adasum(device, count);
  check_rows(device);
  check_background(device);
  if (hvd_size() == 1) check_copies(device);
  if (hvd_rank() == 0) std::printf("%d ranks: right\n", hvd_size());
}

// Together with the other ranks, see time_on().
double time_calls(Device& device, int calls, const std::function<void()>& call) {
  device.synchronize();
  check(hvd_barrier(nullptr), "barrier");
  return time_on(device, calls, call);
}

void bench(Device& device, int calls, std::size_t most) {
  constexpr int kRounds = 7;
  RawNccl raw;
  auto* const buffer = static_cast<float*>(device.allocate(most));
  device.write(buffer, std::vector<float>(most / sizeof(float), 0.0f));
  const hvd_options options = on(device, nullptr);
  if (hvd_rank() == 0)
    std::printf("%10s %12s %12s %12s\n", "bytes", "NCCL us", "hvd us", "above us");
  for (std::size_t bytes = 4; bytes <= most; bytes *= 64) {
    const std::size_t count = bytes / sizeof(float);
    std::vector<double> by_nccl, by_hvd, above;
    for (int round = 0; round <= kRounds; ++round) {
      const double one =
          time_calls(device, calls, [&] { raw.allreduce(buffer, count, device.stream()); });
      const double other = time_calls(device, calls, [&] {
        check(hvd_allreduce(buffer, buffer, count, HVD_FLOAT32, HVD_SUM, &options), "allreduce");
      });
      if (round == 0) continue;  // connections are made
      by_nccl.push_back(one);
      by_hvd.push_back(other);
      above.push_back(other - one);
    }
    if (hvd_rank() == 0)
      std::printf("%10zu %12.2f %12.2f %12.2f\n", bytes, median(by_nccl), median(by_hvd),
                  median(above));
  }
}

int run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "count") {
    std::printf("%d\n", count_devices());
    return 0;
  }
  const auto number = [&](int place) {
    return argc > place ? std::strtoull(argv[place], nullptr, 10) : 0;
  };
  const bool checks = what == "check" && number(2) > 0;
  if (!checks && (what != "bench" || number(2) == 0 || number(3) < sizeof(float))) {
    std::fprintf(stderr, "usage: gpu_check count | check COUNT | bench CALLS BYTES\n");
    return 2;
  }
  check(hvd_init(), "hvd_init");
  const int devices = count_devices();
  if (devices == 0) die("CUDA", "no GPU");
  Device device(hvd_local_rank() % devices);
  if (checks) {
    check_all(device, number(2));
  } else {
    const auto calls = static_cast<int>(number(2));
    bench(device, calls, number(3));
    if (hvd_size() == 1) bench_copies(device, calls);
  }
  check(hvd_shutdown(), "hvd_shutdown");
  return 0;
}

}  // namespace
}  // namespace gpu_check

int main(int argc, char** argv) {
  return gpu_check::run(argc, argv);
}
