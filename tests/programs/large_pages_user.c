/* large_pages_user: allreduces large buffers in shared memory, and sets a step in the status page.
 * Prints the size of a page and the sums. */
#include <hvd/hvd.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
  enum { kCount = 300000 };
  float* buffers[3] = {0};
  int failed = hvd_init() != HVD_OK;
  for (int i = 0; i < 3 && !failed; ++i) {
    void* memory = NULL;
    failed = hvd_alloc(kCount * sizeof(float), &memory) != HVD_OK;
    buffers[i] = memory;
  }
  for (int i = 0; i < 3 && !failed; ++i) {
    for (int at = 0; at < kCount; ++at) buffers[i][at] = (float)(i + 1);
    failed = hvd_allreduce(buffers[i], buffers[i], kCount, HVD_FLOAT32, HVD_SUM, NULL) != HVD_OK;
  }
  if (!failed) failed = hvd_set_step(7) != HVD_OK;
  if (failed) {
    fprintf(stderr, "%s\n", hvd_last_error());
    return 1;
  }
  printf("pages of %ld, sums %g %g %g\n", sysconf(_SC_PAGESIZE), buffers[0][0],
         buffers[1][kCount - 1], buffers[2][0]);
  return hvd_shutdown() == HVD_OK ? 0 : 1;
}
