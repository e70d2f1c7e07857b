/* Measures the lower limit of a collective of two ranks without a library. Each process writes its
 * bytes into shared memory, and a flag into the cache line before them. It waits for the other's
 * flag and copies the other's bytes. In a broadcast only the first process writes. It waits for the
 * other once in SLOTS calls, as in libhvd. limit_collectives broadcast|allgather|alltoall BYTES… */
#include "../allreduce_loop/two_processes.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

enum { LINE = 64, MOST = 1 << 26, SLOTS = 16 };

/* The shared data of a process in a step. Each process has two places, used in turn: when both have
 * published step t, both have read the data of step t-1. */
typedef struct place {
  _Alignas(LINE) atomic_uint step;
  _Alignas(LINE) char bytes[MOST];
} place;

static int rank;
static place* places; /* by rank and parity */
static unsigned step;
static char* output;
static place* slots; /* for broadcasts, used in turn */
static unsigned sent;

static place* place_of(int of, unsigned at) {
  return &places[of * 2 + (int)(at % 2)];
}

/* Publishes `shown` bytes, and returns the bytes of the other process. */
static const char* exchange(const char* from, size_t shown) {
  ++step;
  place* const mine = place_of(rank, step);
  place* const other = place_of(1 - rank, step);
  memcpy(mine->bytes, from, shown);
  atomic_store_explicit(&mine->step, step, memory_order_release);
  while (atomic_load_explicit(&other->step, memory_order_acquire) != step) {
  }
  return other->bytes;
}

static void allgather(float* buffer, size_t count) {
  const size_t bytes = count * sizeof *buffer;
  memcpy(output + (size_t)rank * bytes, buffer, bytes);
  memcpy(output + (size_t)(1 - rank) * bytes, exchange((const char*)buffer, bytes), bytes);
}

static void alltoall(float* buffer, size_t count) {
  const size_t half = count / 2 * sizeof *buffer;
  const char* const input = (const char*)buffer;
  const size_t own = (size_t)rank * half;
  const size_t others = half - own;
  memcpy(output + own, input + own, half);
  memcpy(output + others, exchange(input + others, half), half);
}

static void broadcast(float* buffer, size_t count) {
  place* const slot = &slots[++sent % SLOTS];
  if (rank == 0) {
    memcpy(slot->bytes, buffer, count * sizeof *buffer);
    atomic_store_explicit(&slot->step, sent, memory_order_release);
  } else {
    while (atomic_load_explicit(&slot->step, memory_order_acquire) != sent) {
    }
    memcpy(buffer, slot->bytes, count * sizeof *buffer);
  }
  if (sent % SLOTS == 0) exchange("", 0);
}

static void barrier(void) {
  exchange("", 0);
}

static float* allocate(size_t bytes) {
  if (bytes > MOST) exit(1);
  const size_t room = (bytes + LINE - 1) / LINE * LINE;
  free(output);
  output = aligned_alloc(LINE, room * 2);
  return aligned_alloc(LINE, room);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  void* const memory = mmap(NULL, (4 + SLOTS) * sizeof(place), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return 1;
  places = memory;
  slots = places + 4;
  bench_system system = {0, allgather, barrier, allocate};
  if (strcmp(argv[1], "alltoall") == 0) system.allreduce = alltoall;
  if (strcmp(argv[1], "broadcast") == 0) system.allreduce = broadcast;
  return bench_run_two(system, &rank, 2, argc, argv);
}
