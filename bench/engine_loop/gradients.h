/* The sizes of the gradients of ResNet-50 (He et al., "Deep Residual Learning for Image
 * Recognition", 2015): 161 tensors, 25.6 million float32, in the order of the layers. */
#ifndef HVD_BENCH_GRADIENTS_H_
#define HVD_BENCH_GRADIENTS_H_

#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#define BENCH_GRADIENTS 161

static inline void bench_add_layer(size_t* counts, int* used, size_t weights, size_t channels) {
  counts[(*used)++] = weights;
  counts[(*used)++] = channels; /* batch normalisation's scale and shift */
  counts[(*used)++] = channels;
}

/* Sets the number of elements of each tensor. */
static inline void bench_resnet50(size_t counts[BENCH_GRADIENTS]) {
  static const int blocks[4] = {3, 4, 6, 3};
  int used = 0;
  size_t in = 64;
  bench_add_layer(counts, &used, 3 * 64 * 49, 64);
  for (int stage = 0; stage < 4; ++stage) {
    const size_t planes = (size_t)64 << stage;
    for (int block = 0; block < blocks[stage]; ++block) {
      bench_add_layer(counts, &used, in * planes, planes);
      bench_add_layer(counts, &used, planes * planes * 9, planes);
      bench_add_layer(counts, &used, planes * planes * 4, planes * 4);
      if (block == 0) bench_add_layer(counts, &used, in * planes * 4, planes * 4);
      in = planes * 4;
    }
  }
  counts[used++] = 2048 * 1000;
  counts[used++] = 1000;
}

static inline double bench_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static inline int bench_compare_ms(const void* a, const void* b) {
  const double x = *(const double*)a;
  const double y = *(const double*)b;
  return (x > y) - (x < y);
}

/* Allocates a separate buffer for each tensor, as a framework does. */
static inline void bench_allocate(const size_t counts[BENCH_GRADIENTS],
                                  float* buffers[BENCH_GRADIENTS]) {
  for (int i = 0; i < BENCH_GRADIENTS; ++i)
    buffers[i] = (float*)aligned_alloc(64, (counts[i] * sizeof(float) + 63) / 64 * 64);
}

static inline void bench_write(const size_t counts[BENCH_GRADIENTS],
                               float* buffers[BENCH_GRADIENTS], float value) {
  for (int i = 0; i < BENCH_GRADIENTS; ++i) {
    for (size_t k = 0; k < counts[i]; ++k) buffers[i][k] = value;
  }
}

#endif
