// Checks and measures libhvd on a GPU as one rank of a job, for tests/gpu/device. A rank uses
// device HVD_LOCAL_RANK modulo the number of devices. Exit code 1: a check is wrong, and stderr has
// a message.
#include "collectives.hpp"
#include "copies.hpp"
#include "device.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include <hvd/hvd.h>

namespace gpu_check {
namespace {

constexpr const char* kUsage =
    "usage: gpu_check COMMAND\n"
    "  count              print the number of GPUs\n"
    "  check COUNT        check the results of every collective, up to COUNT elements\n"
    "  join               check allreduces of rank 0 after the others have joined\n"
    "  bench CALLS BYTES  time allreduces of up to BYTES, of libhvd and of NCCL alone\n"
    "  copies BYTES       time libhvd's packing kernel, and one copy of as many bytes\n";

void check(hvd_status status, const char* what) {
  if (status != HVD_OK) die(what, hvd_last_error());
}

// Calls time_on() at the same time on all ranks.
double time_calls(Device& device, int calls, const std::function<void()>& call) {
  device.synchronize();
  check(hvd_barrier(nullptr), "barrier");
  return time_on(device, calls, call);
}

void bench(Device& device, int calls, std::size_t most) {
  constexpr int kRounds = 7;
  RawNccl raw;
  const DeviceMemory<float> memory(device, std::vector<float>(most / sizeof(float), 0.0f));
  float* const buffer = memory.data();
  hvd_options options{};
  options.struct_size = sizeof options;
  options.memory = HVD_CUDA;
  options.stream = device.stream();
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
      if (round == 0) continue;  // the first round makes the connections
      by_nccl.push_back(one);
      by_hvd.push_back(other);
      above.push_back(other - one);
    }
    if (hvd_rank() == 0)
      std::printf("%10zu %12.2f %12.2f %12.2f\n", bytes, median(by_nccl), median(by_hvd),
                  median(above));
  }
}

void check_all(Device& device, std::size_t most) {
  const std::size_t calls = check_collectives(device, most);
  if (hvd_size() == 1) check_copies(device);
  if (hvd_rank() == 0) std::printf("%d ranks: %zu calls right\n", hvd_size(), calls);
}

int run(const std::string& command, std::uint64_t first, std::uint64_t second) {
  check(hvd_init(), "hvd_init");
  const int devices = count_devices();
  if (devices == 0) die("CUDA", "no GPU");
  {
    Device device(hvd_local_rank() % devices);
    if (command == "check") check_all(device, first);
    if (command == "join") check_join(device);
    if (command == "bench") bench(device, static_cast<int>(first), second);
    if (command == "copies") bench_copies(device, first);
  }
  check(hvd_shutdown(), "hvd_shutdown");
  return 0;
}

int read_arguments(int argc, char** argv) {
  const auto number = [&](int place) {
    return argc > place ? std::strtoull(argv[place], nullptr, 10) : 0;
  };
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "count") {
    std::printf("%d\n", count_devices());
    return 0;
  }
  const bool fits = command == "join" || (command == "check" && number(2) > 0) ||
                    (command == "bench" && number(2) > 0 && number(3) >= sizeof(float)) ||
                    (command == "copies" && number(2) > 0);
  if (fits) return run(command, number(2), number(3));
  std::fputs(kUsage, stderr);
  return 2;
}

}  // namespace
}  // namespace gpu_check

int main(int argc, char** argv) {
  return gpu_check::read_arguments(argc, argv);
}
