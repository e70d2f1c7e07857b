/* mpi_gradients STEPS: calls MPI_Allreduce for one gradient after the other, in the same order on
 * all ranks. Rank 0 prints the median of the milliseconds of a step. */
#include "gradients.h"

#include <mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  size_t counts[BENCH_GRADIENTS];
  float* buffers[BENCH_GRADIENTS];
  int rank = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  bench_resnet50(counts);
  bench_allocate(counts, buffers);
  const int steps = atoi(argv[1]);
  double* const times = malloc(sizeof(double) * (size_t)steps);
  for (int step = -1; step < steps; ++step) { /* the first is a warm-up */
    bench_write(counts, buffers, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = bench_now_ms();
    for (int i = 0; i < BENCH_GRADIENTS; ++i)
      MPI_Allreduce(MPI_IN_PLACE, buffers[i], (int)counts[i], MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (step >= 0) times[step] = bench_now_ms() - begin;
  }
  qsort(times, (size_t)steps, sizeof times[0], bench_compare_ms);
  if (rank == 0) printf("%.3f\n", times[steps / 2]);
  MPI_Finalize();
  return 0;
}
