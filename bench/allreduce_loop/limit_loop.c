/* Measures the lower limit: two processes share both buffers. Each adds one half of both buffers
 * and writes it into both. No allreduce in place of two processes can touch less memory. limit_loop
 * BYTES… */
#include "two_processes.h"

#include <stdatomic.h>
#include <sys/mman.h>

enum { MOST = 1 << 30 };

static int rank;
static float* buffers[2];
static atomic_uint* arrived; /* one for each process, on different cache lines */

static void* share(size_t bytes) {
  void* const memory =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) exit(1);
  return memory;
}

static void barrier(void) {
  atomic_uint* const mine = &arrived[rank * 16];
  atomic_uint* const other = &arrived[(1 - rank) * 16];
  const unsigned step = atomic_load_explicit(mine, memory_order_relaxed) + 1;
  atomic_store_explicit(mine, step, memory_order_release);
  while ((int)(atomic_load_explicit(other, memory_order_acquire) - step) < 0) {
  }
}

static void allreduce(float* unused, size_t count) {
  (void)unused;
  barrier();
  const size_t begin = rank == 0 ? 0 : count / 2;
  const size_t end = rank == 0 ? count / 2 : count;
  float* restrict a = buffers[0];
  float* restrict b = buffers[1];
  for (size_t i = begin; i < end; ++i) {
    const float sum = a[i] + b[i];
    a[i] = sum;
    b[i] = sum;
  }
  barrier();
}

static float* allocate(size_t bytes) {
  if (bytes > MOST) exit(1);
  return buffers[rank];
}

int main(int argc, char** argv) {
  for (int i = 0; i < 2; ++i) buffers[i] = share(MOST);
  arrived = share(4096);
  const bench_system system = {0, allreduce, barrier, allocate};
  return bench_run_two(system, &rank, 1, argc, argv);
}
