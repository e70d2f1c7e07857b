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
    die("kernel", outcome.error().message.c_str());
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
  if (!kernel.ok()) die("kernel", kernel.error().message.c_str());
  constexpr std::size_t kBytes = 1 << 20;
  std::vector<unsigned char> values(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) values[i] = static_cast<unsigned char>(1 + i % 251);
  auto* const from = static_cast<std::byte*>(device.allocate(kBytes));
  auto* const to = static_cast<std::byte*>(device.allocate(kBytes));
  device.write(from, values);
  device.write(to, std::vector<unsigned char>(kBytes, 0));
  std::vector<unsigned char> expected(kBytes, 0);
  std::vector<DeviceCopy> copies;
  std::size_t begin = 0;
  for (std::size_t i = 0; begin + 40'000 < kBytes; ++i) {
    const std::size_t bytes = i % 10 == 0 ? 33'000 + i : i % 90;
    const std::size_t source = begin + (i % 3 == 0 ? 0 : i % 16);  // alike aligned, and not
    copies.push_back({to + begin, from + source, bytes});
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(source), bytes,
                expected.begin() + static_cast<std::ptrdiff_t>(begin));
    begin += bytes + i % 7;
  }
  run(*kernel, copies, device.stream());
  if (device.read<unsigned char>(to, kBytes) != expected) die("kernel", "a copy is wrong");
  std::printf("kernel for small tensors: right\n");
}

void bench_copies(Device& device, int calls) {
  constexpr int kRounds = 7;
  constexpr std::size_t kPieces = 128, kPiece = 128 << 10, kAll = kPieces * kPiece;
  const auto kernels = load_kernels();
  if (!kernels.ok()) return;
  const auto kernel = CopyKernel::find(*kernels);
  if (!kernel.ok()) die("kernel", kernel.error().message.c_str());
  auto* const from = static_cast<std::byte*>(device.allocate(kAll));
  auto* const to = static_cast<std::byte*>(device.allocate(kAll));
  std::vector<DeviceCopy> copies;
  for (std::size_t i = 0; i < kPieces; ++i)
    copies.push_back({to + i * kPiece, from + (kPieces - 1 - i) * kPiece, kPiece});
  std::vector<double> packed, copied;
  for (int round = 0; round < kRounds; ++round) {
    packed.push_back(time_on(device, calls, [&] { run(*kernel, copies, device.stream()); }));
    copied.push_back(time_on(device, calls, [&] { device.copy(to, from, kAll); }));
  }
  const double gigabytes = static_cast<double>(kAll) / 1e3;  // with microseconds
  std::printf("packing %zu pieces of %zu bytes: %.1f GB/s; one copy: %.1f GB/s; ratio %.2f\n",
              kPieces, kPiece, gigabytes / median(packed), gigabytes / median(copied),
              median(copied) / median(packed));
}

}  // namespace gpu_check
