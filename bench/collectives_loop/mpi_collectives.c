/* Measures a collective of MPI in the loop of bench/allreduce. Its arguments are those of
 * hvd_collectives.cpp. */
#include "../allreduce_loop/loop.h"

#include <mpi.h>
#include <string.h>

static int size;
static float* output;

static void broadcast(float* buffer, size_t count) {
  MPI_Bcast(buffer, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void allgather(float* buffer, size_t count) {
  MPI_Allgather(buffer, (int)count, MPI_FLOAT, output, (int)count, MPI_FLOAT, MPI_COMM_WORLD);
}

static void reducescatter(float* buffer, size_t count) {
  MPI_Reduce_scatter_block(buffer, output, (int)count / size, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void alltoall(float* buffer, size_t count) {
  const int each = (int)count / size;
  MPI_Alltoall(buffer, each, MPI_FLOAT, output, each, MPI_FLOAT, MPI_COMM_WORLD);
}

static void barrier(void) {
  MPI_Barrier(MPI_COMM_WORLD);
}

static float* allocate(size_t bytes) {
  const size_t room = (bytes + 63) / 64 * 64;
  free(output);
  output = aligned_alloc(64, room * (size_t)size);
  return aligned_alloc(64, room);
}

int main(int argc, char** argv) {
  bench_system system = {.allreduce = broadcast, .barrier = barrier, .allocate = allocate};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &system.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (strcmp(argv[1], "allgather") == 0) system.allreduce = allgather;
  if (strcmp(argv[1], "reducescatter") == 0) system.allreduce = reducescatter;
  if (strcmp(argv[1], "alltoall") == 0) system.allreduce = alltoall;
  bench_run(&system, 2, argc, argv);
  MPI_Finalize();
  return 0;
}
