/* Runs the loop that bench/allreduce measures for every system: float32, sum, in place. Rank 0
 * prints a line for each size: the bytes, and the median of the microseconds of one call. Calls
 * that are too short for the clock are measured in batches.
 *
 * From 64 KB on, all ranks write their whole buffer before each call and wait at a barrier.
 * Otherwise a part of it would remain in the cache of the last processor, unlike in training. */
#ifndef HVD_BENCH_ALLREDUCE_LOOP_H_
#define HVD_BENCH_ALLREDUCE_LOOP_H_

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct bench_system {
  int rank;
  void (*allreduce)(float* buffer, size_t count);
  void (*barrier)(void);
  float* (*allocate)(size_t bytes); /* aligned to 64 bytes */
} bench_system;

#define BENCH_REWRITTEN_BYTES ((size_t)64 * 1024)
#define BENCH_MOST_SAMPLES 61
#define BENCH_BATCH 200

static inline double bench_now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static inline int bench_compare(const void* a, const void* b) {
  const double x = *(const double*)a;
  const double y = *(const double*)b;
  return (x > y) - (x < y);
}

/* Returns the number of samples for a size. It is the same on all ranks, so that all make the same
 * calls. */
static inline int bench_samples(size_t bytes) {
  const size_t fitting = ((size_t)1 << 30) / (bytes + 1);
  if (fitting < 5) return 5;
  return fitting > BENCH_MOST_SAMPLES ? BENCH_MOST_SAMPLES : (int)fitting;
}

static inline double bench_sample(const bench_system* system, float* buffer, size_t bytes) {
  const size_t count = bytes / sizeof(float);
  if (bytes < BENCH_REWRITTEN_BYTES) {
    for (size_t i = 0; i < count; ++i) buffer[i] = 0;
    system->barrier();
    const double begin = bench_now_us();
    for (int call = 0; call < BENCH_BATCH; ++call) system->allreduce(buffer, count);
    return (bench_now_us() - begin) / BENCH_BATCH;
  }
  for (size_t i = 0; i < count; ++i) buffer[i] = (float)(system->rank + 1);
  system->barrier();
  const double begin = bench_now_us();
  system->allreduce(buffer, count);
  return bench_now_us() - begin;
}

/* Measures and prints each size. `argv`: the sizes in bytes, after the first `skip` words. */
static inline void bench_run(const bench_system* system, int skip, int argc, char** argv) {
  for (int i = skip; i < argc; ++i) {
    const size_t bytes = (size_t)strtoull(argv[i], NULL, 10); /* NOLINT: C has no nullptr */
    float* const buffer = system->allocate(bytes);
    double times[BENCH_MOST_SAMPLES];
    const int samples = bench_samples(bytes);
    bench_sample(system, buffer, bytes); /* a warm-up */
    for (int sample = 0; sample < samples; ++sample)
      times[sample] = bench_sample(system, buffer, bytes);
    qsort(times, (size_t)samples, sizeof times[0], bench_compare);
    if (system->rank == 0) printf("%zu %.3f\n", bytes, times[samples / 2]);
  }
}

#endif
