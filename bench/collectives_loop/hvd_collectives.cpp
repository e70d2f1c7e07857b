// Measures a collective of libhvd in the loop of bench/allreduce. BYTES is the size of one rank's
// input. The output is another buffer, except for broadcast.
// hvd_collectives broadcast|allgather|reducescatter|alltoall BYTES…
#include "../allreduce_loop/loop.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include <hvd/hvd.h>

namespace {

float* output = nullptr;

void check(hvd_status status) {
  if (status == HVD_OK) return;
  std::fprintf(stderr, "hvd_collectives: %s\n", hvd_last_error());
  std::exit(1);
}

void broadcast(float* buffer, std::size_t count) {
  check(hvd_broadcast(buffer, count, HVD_FLOAT32, 0, nullptr));
}

void allgather(float* buffer, std::size_t count) {
  const std::size_t rows = count * static_cast<std::size_t>(hvd_size());
  check(hvd_allgather(buffer, count, 1, HVD_FLOAT32, output, rows, nullptr, nullptr));
}

void reducescatter(float* buffer, std::size_t count) {
  check(hvd_reducescatter(buffer, count, 1, HVD_FLOAT32, HVD_SUM, output, nullptr));
}

void alltoall(float* buffer, std::size_t count) {
  check(hvd_alltoall(buffer, nullptr, count, 1, HVD_FLOAT32, output, count, nullptr, nullptr));
}

void barrier() {
  check(hvd_barrier(nullptr));
}

float* allocate(std::size_t bytes) {
  const std::size_t room = (bytes + 63) / 64 * 64;
  std::free(output);
  output = static_cast<float*>(std::aligned_alloc(64, room * static_cast<std::size_t>(hvd_size())));
  return static_cast<float*>(std::aligned_alloc(64, room));
}

}  // namespace

int main(int argc, char** argv) {
  check(hvd_init());
  const std::string name = argc > 1 ? argv[1] : "";
  bench_system system = {hvd_rank(), broadcast, barrier, allocate};
  if (name == "allgather") system.allreduce = allgather;
  if (name == "reducescatter") system.allreduce = reducescatter;
  if (name == "alltoall") system.allreduce = alltoall;
  bench_run(&system, 2, argc, argv);
  check(hvd_shutdown());
}
