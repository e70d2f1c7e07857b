// A double of libcuda.so.1 for libhvd's kernels. It runs them on the stream, and touches only what
// a grid of blocks of the given size would touch.
#include "cuda_double.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <collective/adasum_factors.h>
#include <gpu/adasum_slices.h>
#include <gpu/copy_batch.h>
#include <hvd/float16.hpp>

#define HVD_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kInvalidValue = 1;
constexpr int kInvalidContext = 201;
constexpr int kNotFound = 500;

int loaded = 0;

struct Grid {
  unsigned x;
  unsigned y;
  unsigned threads;
};

template <class T>
T parameter(void** parameters, int index) {
  return *static_cast<const T*>(parameters[index]);
}

// Returns the double's own view of numbers on the device.
double* reach_doubles(const double* device) {
  return reinterpret_cast<double*>(cuda_double::reach(device));
}

int copy_batch(const Grid& grid, void* stream, void** parameters) {
  const auto batch = parameter<libhvd::CopyBatch>(parameters, 0);
  if (grid.threads != libhvd::kCopyThreads || grid.x == 0 ||
      grid.y != static_cast<unsigned>(batch.count))
    return kInvalidValue;
  return cuda_double::enqueue(stream, [batch, grid] {
    for (int i = 0; i < batch.count; ++i) {
      const libhvd::DeviceCopy& copy = batch.copies[i];
      const std::size_t reached = std::min(copy.bytes, grid.x * libhvd::kCopyBytesPerBlock);
      if (reached > 0)
        std::memcpy(cuda_double::reach(copy.to), cuda_double::reach(copy.from), reached);
    }
  });
}

double load(const libhvd::AdasumSlices& slices, std::uint64_t i) {
  const std::byte* const values = cuda_double::reach(slices.values);
  switch (slices.type) {
    case libhvd::AdasumType::float16:
      return static_cast<float>(reinterpret_cast<const hvd::float16*>(values)[i]);
    case libhvd::AdasumType::bfloat16:
      return static_cast<float>(reinterpret_cast<const hvd::bfloat16*>(values)[i]);
    case libhvd::AdasumType::float32:
      return reinterpret_cast<const float*>(values)[i];
    default:
      return reinterpret_cast<const double*>(values)[i];
  }
}

void store(libhvd::AdasumType type, void* device, std::uint64_t i, double value) {
  std::byte* const values = cuda_double::reach(device);
  switch (type) {
    case libhvd::AdasumType::float16:
      reinterpret_cast<hvd::float16*>(values)[i] = hvd::float16(static_cast<float>(value));
      return;
    case libhvd::AdasumType::bfloat16:
      reinterpret_cast<hvd::bfloat16*>(values)[i] = hvd::bfloat16(static_cast<float>(value));
      return;
    case libhvd::AdasumType::float32:
      reinterpret_cast<float*>(values)[i] = static_cast<float>(value);
      return;
    default:
      reinterpret_cast<double*>(values)[i] = value;
  }
}

int adasum_multiply(const Grid& grid, void* stream, void** parameters) {
  const auto slices = parameter<libhvd::AdasumSlices>(parameters, 0);
  const auto parts = parameter<std::uint64_t>(parameters, 1);
  auto* const sums = parameter<double*>(parameters, 2);
  const auto ranks = static_cast<std::size_t>(slices.ranks);
  if (grid.threads != libhvd::kAdasumThreads || grid.y != 1 ||
      grid.x != libhvd::adasum_products(ranks) * parts)
    return kInvalidValue;
  return cuda_double::enqueue(stream, [slices, parts, sums, ranks] {
    double* const to = reach_doubles(sums);
    for (std::size_t a = 0; a < ranks; ++a) {
      for (std::size_t b = a; b < ranks; ++b) {
        for (std::uint64_t part = 0; part < parts; ++part) {
          const std::uint64_t begin = part * libhvd::kAdasumPerBlock;
          const std::uint64_t end = std::min(slices.length, begin + libhvd::kAdasumPerBlock);
          double sum = 0;
          for (std::uint64_t i = begin; i < end; ++i)
            sum += load(slices, a * slices.length + i) * load(slices, b * slices.length + i);
          to[libhvd::adasum_product(a, b, ranks) * parts + part] = sum;
        }
      }
    }
  });
}

int adasum_add_up(const Grid& grid, void* stream, void** parameters) {
  const auto* const sums = parameter<const double*>(parameters, 0);
  const auto parts = parameter<std::uint64_t>(parameters, 1);
  auto* const products = parameter<double*>(parameters, 2);
  if (grid.threads != libhvd::kAdasumThreads || grid.y != 1) return kInvalidValue;
  return cuda_double::enqueue(stream, [grid, sums, parts, products] {
    for (unsigned product = 0; product < grid.x; ++product) {
      const double* const from = reach_doubles(sums) + product * parts;
      double sum = 0;
      for (std::uint64_t part = 0; part < parts; ++part) sum += from[part];
      reach_doubles(products)[product] = sum;
    }
  });
}

int adasum_factors(const Grid& grid, void* stream, void** parameters) {
  const auto* const products = parameter<const double*>(parameters, 0);
  const auto ranks = parameter<std::uint64_t>(parameters, 1);
  const auto scale = parameter<double>(parameters, 2);
  auto* const factors = parameter<double*>(parameters, 3);
  if (grid.threads != 1 || grid.x != 1 || grid.y != 1) return kInvalidValue;
  return cuda_double::enqueue(stream, [products, ranks, scale, factors] {
    libhvd::adasum_factors(reach_doubles(products), ranks, reach_doubles(factors));
    for (std::uint64_t rank = 0; rank < ranks; ++rank) reach_doubles(factors)[rank] *= scale;
  });
}

int adasum_combine(const Grid& grid, void* stream, void** parameters) {
  const auto slices = parameter<libhvd::AdasumSlices>(parameters, 0);
  const auto* const factors = parameter<const double*>(parameters, 1);
  auto* const sum = parameter<void*>(parameters, 2);
  if (grid.threads != libhvd::kAdasumThreads || grid.y != 1) return kInvalidValue;
  return cuda_double::enqueue(stream, [grid, slices, factors, sum] {
    const std::uint64_t reached = std::min(slices.length, grid.x * libhvd::kAdasumPerBlock);
    const auto ranks = static_cast<std::uint64_t>(slices.ranks);
    for (std::uint64_t i = 0; i < reached; ++i) {
      double value = 0;
      for (std::uint64_t rank = 0; rank < ranks; ++rank)
        value += reach_doubles(factors)[rank] * load(slices, rank * slices.length + i);
      store(slices.type, sum, i, value);
    }
  });
}

struct Kernel {
  const char* name;
  int (*run)(const Grid& grid, void* stream, void** parameters);
};
constexpr Kernel kKernels[] = {
    {"hvd_copy_batch", copy_batch},         {"hvd_adasum_multiply", adasum_multiply},
    {"hvd_adasum_add_up", adasum_add_up},   {"hvd_adasum_factors", adasum_factors},
    {"hvd_adasum_combine", adasum_combine},
};

}  // namespace

HVD_EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  *flags = 0;
  *active = cuda_double::has_context(device) ? 1 : 0;
  return 0;
}

HVD_EXPORT int cuModuleLoadData(void** module, const void* image) {
  if (!cuda_double::has_current_context()) return kInvalidContext;
  constexpr unsigned kFatBinary = 0xba55ed50;  // the magic number of nvcc's files
  unsigned magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  *module = &loaded;
  return magic == kFatBinary ? 0 : kInvalidValue;
}

HVD_EXPORT int cuModuleUnload(void*) {
  return 0;
}

HVD_EXPORT int cuModuleGetFunction(void** function, void*, const char* name) {
  for (const Kernel& kernel : kKernels) {
    if (std::strcmp(name, kernel.name) != 0) continue;
    *function = const_cast<Kernel*>(&kernel);
    return 0;
  }
  return kNotFound;
}

// HVD_DOUBLE_LAUNCHES names a file that gets a byte for each kernel launch.
HVD_EXPORT int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                              unsigned block_x, unsigned block_y, unsigned block_z, unsigned,
                              void* stream, void** parameters, void**) {
  if (grid_z != 1 || block_y != 1 || block_z != 1) return kInvalidValue;
  if (const char* const file = std::getenv("HVD_DOUBLE_LAUNCHES"))
    std::ofstream(file, std::ios::app) << 'x';
  return static_cast<const Kernel*>(function)->run({grid_x, grid_y, block_x}, stream, parameters);
}
