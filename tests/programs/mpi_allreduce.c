/* mpi_allreduce [--abort RANK]: each rank prints "rank R of N: sum S"; S is the sum of rank + 1
 * over all ranks. --abort: RANK then calls MPI_Abort with code 7, while the others wait in a
 * barrier. */
#include "options.h"

#include <mpi.h>

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int sum = rank + 1;
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d of %d: sum %d\n", rank, size, sum);
  fflush(stdout);
  const long aborting = number(argv, "--abort", -1);
  if (aborting == rank) MPI_Abort(MPI_COMM_WORLD, 7);
  if (aborting >= 0) MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
