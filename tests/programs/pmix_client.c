/* A typical PMIx client: init, put, fence, get from each rank, finalize.
 *
 *   pmix_client [--abort RANK] [--no-finalize RANK] [--quiet] [--fence-only] [--stay]
 *               [--until FILE] [--then COMMAND]
 *
 * Each rank puts its rank and prints "rank R of N: sum S", the sum of all ranks' values. --quiet:
 * prints nothing. --fence-only: init, fence, finalize. --abort: RANK calls PMIx_Abort with code 7.
 * --no-finalize: RANK exits with 0 without PMIx_Finalize. --stay: waits for a signal. --until:
 * finalizes once FILE exists. --then: runs COMMAND by system(3), and fences once more. */
#include "options.h"

#include <pmix.h>
#include <unistd.h>

static void must(pmix_status_t status, const char* call) {
  if (status == PMIX_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", call, PMIx_Error_string(status));
  exit(98);
}

static long get_number(const pmix_proc_t* of, const char* key) {
  pmix_value_t* value = NULL;
  must(PMIx_Get(of, key, NULL, 0, &value), key);
  const long result = (long)value->data.uint32;
  PMIX_VALUE_RELEASE(value);
  return result;
}

int main(int argc, char** argv) {
  (void)argc;
  pmix_proc_t self, job;
  must(PMIx_Init(&self, NULL, 0), "PMIx_Init");
  if (flag(argv, "--fence-only")) {
    must(PMIx_Fence(NULL, 0, NULL, 0), "PMIx_Fence");
    must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
    return 0;
  }
  PMIX_LOAD_PROCID(&job, self.nspace, PMIX_RANK_WILDCARD);
  const long size = get_number(&job, PMIX_JOB_SIZE);

  pmix_value_t own = {.type = PMIX_UINT32, .data.uint32 = self.rank};
  must(PMIx_Put(PMIX_GLOBAL, "hvd.test", &own), "PMIx_Put");
  must(PMIx_Commit(), "PMIx_Commit");
  bool collect = true;
  pmix_info_t info;
  PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
  must(PMIx_Fence(NULL, 0, &info, 1), "PMIx_Fence");

  long sum = 0;
  for (long rank = 0; rank < size; rank++) {
    pmix_proc_t peer;
    PMIX_LOAD_PROCID(&peer, self.nspace, (pmix_rank_t)rank);
    sum += get_number(&peer, "hvd.test");
  }
  if (!flag(argv, "--quiet")) {
    printf("rank %u of %ld: sum %ld\n", self.rank, size, sum);
    fflush(stdout);
  }
  const char* command = option(argv, "--then", NULL);
  if (command != NULL) {
    if (system(command) != 0) exit(97);
    must(PMIx_Fence(NULL, 0, NULL, 0), "PMIx_Fence");
  }
  if (flag(argv, "--stay")) pause();
  const char* file = option(argv, "--until", NULL);
  while (file && access(file, F_OK) != 0) usleep(1000);
  if (number(argv, "--abort", -1) == (long)self.rank)
    PMIx_Abort(7, "the test asked for an abort", NULL, 0);
  if (number(argv, "--no-finalize", -1) == (long)self.rank) _exit(0);
  must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
  return 0;
}
