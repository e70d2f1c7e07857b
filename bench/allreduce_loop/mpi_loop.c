/* mpi_loop SEGMENT BYTES…: measures MPI_Allreduce in the loop of loop.h. SEGMENT: the bytes of one
 * call; 0: the whole buffer. */
#include "loop.h"

#include <mpi.h>

static size_t segment;

static void allreduce(float* buffer, size_t count) {
  const size_t most = segment == 0 ? count : segment / sizeof(float);
  for (size_t done = 0; done < count; done += most) {
    const size_t now = count - done < most ? count - done : most;
    MPI_Allreduce(MPI_IN_PLACE, buffer + done, (int)now, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
}

static void barrier(void) {
  MPI_Barrier(MPI_COMM_WORLD);
}

static float* allocate(size_t bytes) {
  return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

/* Connects the ranks pair by pair, the lower rank first. Open MPI 4.1.4 between hosts sometimes
 * fails when two ranks connect to each other at the same time. */
static void connect_all(int rank) {
  int size = 0;
  char byte = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int low = 0; low < size; ++low) {
    for (int high = low + 1; high < size; ++high) {
      if (rank == low) {
        MPI_Send(&byte, 1, MPI_CHAR, high, 0, MPI_COMM_WORLD);
        MPI_Recv(&byte, 1, MPI_CHAR, high, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      } else if (rank == high) {
        MPI_Recv(&byte, 1, MPI_CHAR, low, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&byte, 1, MPI_CHAR, low, 0, MPI_COMM_WORLD);
      }
    }
  }
}

int main(int argc, char** argv) {
  bench_system system = {.allreduce = allreduce, .barrier = barrier, .allocate = allocate};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &system.rank);
  connect_all(system.rank);
  segment = (size_t)strtoull(argv[1], NULL, 10);
  bench_run(&system, 2, argc, argv);
  MPI_Finalize();
  return 0;
}
