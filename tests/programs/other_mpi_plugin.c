/* A plugin for MPI with an ABI version that libhvd does not know. */
#include "transport/mpi_plugin.h"

const hvd_mpi_plugin* hvd_mpi_plugin_functions(void);

const hvd_mpi_plugin* hvd_mpi_plugin_functions(void) {
  static const hvd_mpi_plugin functions = {.abi = HVD_MPI_ABI + 1000};
  return &functions;
}
