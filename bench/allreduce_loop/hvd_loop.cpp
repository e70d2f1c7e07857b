// Measures hvd_allreduce in the loop of loop.h. async: submits a named one in the background and
// waits for it. float32/int8 and so on: reduces float32 in compressed form, by name.
// float32/adasum: uses HVD_ADASUM instead of HVD_SUM.
// hvd_loop private|registered|async float32|float16|bfloat16|float32/float16|… BYTES…
#include "loop.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include <hvd/hvd.h>

namespace {

void check(hvd_status status) {
  if (status == HVD_OK) return;
  std::fprintf(stderr, "hvd_loop: %s\n", hvd_last_error());
  std::exit(1);
}

hvd_type type = HVD_FLOAT32;
hvd_op op = HVD_SUM;
int compression = HVD_COMPRESSION_NONE;

// Reduces the same number of bytes for each type.
void allreduce(float* buffer, std::size_t count) {
  if (compression != HVD_COMPRESSION_NONE) {
    hvd_options options{};
    options.struct_size = sizeof options;
    options.name = "layer.1.weight";
    options.compression = compression;
    return check(hvd_allreduce(buffer, buffer, count, HVD_FLOAT32, HVD_SUM, &options));
  }
  const std::size_t elements = type == HVD_FLOAT32 ? count : 2 * count;
  check(hvd_allreduce(buffer, buffer, elements, type, op, nullptr));
}

void allreduce_async(float* buffer, std::size_t count) {
  hvd_options options{};
  options.struct_size = sizeof options;
  options.name = "layer.1.weight";
  hvd_handle handle = 0;
  check(hvd_allreduce_async(buffer, buffer, count, HVD_FLOAT32, HVD_SUM, &options, &handle));
  check(hvd_wait(handle));
}

void barrier() {
  check(hvd_barrier(nullptr));
}

float* allocate_private(std::size_t bytes) {
  return static_cast<float*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
}

float* allocate_registered(std::size_t bytes) {
  void* memory = nullptr;
  check(hvd_alloc(bytes, &memory));
  return static_cast<float*>(memory);
}

}  // namespace

int main(int argc, char** argv) {
  check(hvd_init());
  const std::string memory = argc > 1 ? argv[1] : "";
  const std::string name = argc > 2 ? argv[2] : "";
  const bool registered = memory == "registered";
  if (name == "float16") type = HVD_FLOAT16;
  if (name == "bfloat16") type = HVD_BFLOAT16;
  if (name == "float32/adasum") op = HVD_ADASUM;
  if (name == "float32/float16") compression = HVD_COMPRESSION_FLOAT16;
  if (name == "float32/bfloat16") compression = HVD_COMPRESSION_BFLOAT16;
  if (name == "float32/int8") compression = HVD_COMPRESSION_INT8;
  const bench_system system = {hvd_rank(), memory == "async" ? allreduce_async : allreduce, barrier,
                               registered ? allocate_registered : allocate_private};
  bench_run(&system, 3, argc, argv);
  check(hvd_shutdown());
}
