/* say_marker MARKER [--differ RANK]: each rank is on a host of its own to libhvd, because it has
 * its own folder for shared memory in HVD_SHM_DIR. The ranks send each other "small:MARKER" by a
 * broadcast, and "large:MARKER", repeated, by an allreduce of 8 MiB. --differ: RANK inverts its
 * HVD_DATA_TLS. Prints "came" at the end. Exit code 1: a call has failed; its error is on stderr.
 * Code 3: the data is wrong. */
#include "options.h"

#include <hvd/hvd.h>
#include <sys/stat.h>

static void must(hvd_status status) {
  if (status == HVD_OK) return;
  fprintf(stderr, "%s\n", hvd_last_error());
  exit(1);
}

static void move_to_own_host(const char* rank) {
  char folder[4096];
  snprintf(folder, sizeof folder, "%s/host%s", getenv("HVD_SHM_DIR"), rank);
  mkdir(folder, 0700);
  setenv("HVD_SHM_DIR", folder, 1);
  snprintf(folder, sizeof folder, "named-host-%s", rank);
  setenv("HVD_HOSTNAME", folder, 1);
}

int main(int argc, char** argv) {
  const char* const marker = argc > 1 ? argv[1] : "";
  const char* const rank = getenv("HVD_RANK");
  if (rank == NULL) return 2;
  const char* const differs = argc > 3 ? argv[3] : "";
  const char* const tls = getenv("HVD_DATA_TLS");
  if (strcmp(rank, differs) == 0)
    setenv("HVD_DATA_TLS", tls != NULL && strcmp(tls, "1") == 0 ? "0" : "1", 1);
  move_to_own_host(rank);
  must(hvd_init());

  char small[256] = "";
  if (hvd_rank() == 0) snprintf(small, sizeof small, "small:%s", marker);
  must(hvd_broadcast(small, sizeof small, HVD_UINT8, 0, NULL));

  enum { BYTES = 8 << 20 };
  char text[256];
  const size_t length = (size_t)snprintf(text, sizeof text, "large:%s ", marker);
  char* const large = malloc(BYTES);
  for (size_t i = 0; i < BYTES; ++i) large[i] = text[i % length];
  must(hvd_allreduce(large, large, BYTES, HVD_UINT8, HVD_MAX, NULL));
  for (size_t i = 0; i < BYTES; ++i) {
    if (large[i] != text[i % length]) return 3;
  }
  free(large);
  if (strncmp(small, "small:", 6) != 0 || strcmp(small + 6, marker) != 0) return 3;
  must(hvd_shutdown());
  puts("came");
  return 0;
}
