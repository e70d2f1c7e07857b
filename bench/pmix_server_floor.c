/* pmix_server_floor: opens a PMIx server as an agent does, and ends. bench/hosts compares the start
 * of an agent with this lower limit. */
#include <pmix_server.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void) {
  char folder[] = "/tmp/hvd-bench-XXXXXX";
  if (mkdtemp(folder) == NULL) return 1;
  setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1);
  setenv("PMIX_MCA_gds", "hash", 1);
  setenv("PMIX_MCA_psec", "native", 1);
  pmix_info_t info[3];
  PMIX_INFO_LOAD(&info[0], PMIX_SERVER_TMPDIR, folder, PMIX_STRING);
  PMIX_INFO_LOAD(&info[1], PMIX_SYSTEM_TMPDIR, folder, PMIX_STRING);
  PMIX_INFO_LOAD(&info[2], PMIX_TCP_IF_INCLUDE, "lo", PMIX_STRING);
  static pmix_server_module_t module;
  if (PMIx_server_init(&module, info, 3) != PMIX_SUCCESS) return 1;
  PMIx_server_finalize();
  rmdir(folder);
  return 0;
}
