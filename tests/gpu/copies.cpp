#include "copies.hpp"

#include "gpu/copy_kernel.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

namespace gpu_check {
namespace {

using libhvd::CopyKernel;
using libhvd::DeviceCopy;

libhvd::Result<libhvd::KernelModule> load_kernels() {
  return libhvd::KernelModule::load(libhvd::process_environment());
}

void run(const CopyKernel& kernel, const std::vector<DeviceCopy>& copies, void* stream) {
  if (const auto outcome = kernel.run(copies, stream); !outcome.ok())
    die("kernel", outcome.error().message);
}

}  // namespace

double time_on(Device& device, int calls, const std::function<void()>& call) {
  device.synchronize();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) call();
  device.synchronize();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
             .count() /
         calls;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void check_copies(Device& device) {
  const auto kernels = load_kernels();
  if (!kernels.ok()) {
    std::printf("no kernel for small tensors: %s\n", kernels.error().message.c_str());
    return;
  }
  const auto kernel = CopyKernel::find(*kernels);
  if (!kernel.ok()) die("kernel", kernel.error().message);
  constexpr std::size_t kBytes = 1 << 20;
  std::vector<unsigned char> values(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) values[i] = static_cast<unsigned char>(1 + i % 251);
  const DeviceMemory<unsigned char> input(device, values);
  const DeviceMemory<unsigned char> output(device, std::vector<unsigned char>(kBytes, 0));
  auto* const from = reinterpret_cast<std::byte*>(input.data());
  auto* const to = reinterpret_cast<std::byte*>(output.data());
  std::vector<unsigned char> expected(kBytes, 0);
  std::vector<DeviceCopy> copies;
  std::size_t begin = 0;
  for (std::size_t i = 0; begin + 40'000 < kBytes; ++i) {
    const std::size_t bytes = i % 10 == 0 ? 33'000 + i : i % 90;
    const std::size_t source =
        begin + (i % 3 == 0 ? 0 : i % 16);  // with equal and different alignment
    copies.push_back({to + begin, from + source, bytes});
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(source), bytes,
                expected.begin() + static_cast<std::ptrdiff_t>(begin));
    begin += bytes + i % 7;
  }
  run(*kernel, copies, device.stream());
  if (output.read() != expected) die("kernel", "a copy is wrong");
  std::printf("kernel for small tensors: right\n");
}

void bench_copies(Device& device, std::size_t bytes) {
  constexpr int kRounds = 7, kCalls = 3;
  constexpr std::size_t kPiece = 128 << 10;  // a size of tensors that libhvd packs
  const auto kernels = load_kernels();
  if (!kernels.ok()) {
    std::printf("no kernel for small tensors: %s\n", kernels.error().message.c_str());
    return;
  }
  const auto kernel = CopyKernel::find(*kernels);
  if (!kernel.ok()) die("kernel", kernel.error().message);
  const std::size_t pieces = std::max<std::size_t>(1, bytes / kPiece), all = pieces * kPiece;
  const DeviceMemory<std::byte> from(device, all), to(device, all);
  std::vector<DeviceCopy> copies;
  for (std::size_t i = 0; i < pieces; ++i)
    copies.push_back({to.data() + i * kPiece, from.data() + (pieces - 1 - i) * kPiece, kPiece});
  std::vector<double> packed, copied;
  for (int round = 0; round < kRounds; ++round) {
    packed.push_back(time_on(device, kCalls, [&] { run(*kernel, copies, device.stream()); }));
    copied.push_back(time_on(device, kCalls, [&] { device.copy(to.data(), from.data(), all); }));
  }
  const double gigabytes = 2 * static_cast<double>(all) / 1e3;  // for division by microseconds
  std::printf(
      "%zu pieces of %zu bytes, read and written: packed at %.1f GB/s, one copy at %.1f GB/s; "
      "ratio %.2f\n",
      pieces, kPiece, gigabytes / median(packed), gigabytes / median(copied),
      median(copied) / median(packed));
}

}  // namespace gpu_check
