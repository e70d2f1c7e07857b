/* libhvd's plugin for MPI, of a version that there never was. */
#include "transport/mpi_plugin.h"

const hvd_mpi_plugin* hvd_mpi_plugin_functions(void);

const hvd_mpi_plugin* hvd_mpi_plugin_functions(void) {
  static const hvd_mpi_plugin functions = {.abi = HVD_MPI_ABI + 1000};
  return &functions;
}
