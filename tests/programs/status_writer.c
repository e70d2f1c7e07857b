/* status_writer [--hostile]: maps the rank's status page like libhvd, writes a step, an error and a
 * collective into it, then kills itself. The agent must still be able to read the page. --hostile:
 * rank 0 writes control characters and impossible numbers, to stderr too, and exits with code 3. */
#include "common/status_page.h"
#include "common/variables.h"
#include "options.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static hvd_status_page* attach(void) {
  char path[4096];
  const char* value = getenv(HVD_ENV_STATUS);
  const char* at = value ? strrchr(value, '@') : NULL;
  if (!at || (size_t)(at - value) >= sizeof path) return NULL;
  memcpy(path, value, (size_t)(at - value));
  path[at - value] = '\0';
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return NULL;
  void* page =
      mmap(NULL, HVD_STATUS_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, atol(at + 1));
  close(fd);
  return page == MAP_FAILED ? NULL : page;
}

static const char kHostile[] = "red \x1b[31m bell \a line\nhvdrun: 2 ranks succeeded \xc2\x9b";

static int be_hostile(hvd_status_page* page) {
  page->pid = (uint32_t)getpid();
  page->attached = 1;
  page->step = page->samples = page->epochs_over = UINT64_MAX;
  page->collective_ns = page->waiting_ns = UINT64_MAX;
  for (int i = 0; i < (int)HVD_STATUS_EPOCHS; i++) page->epochs[i].duration_ns = UINT64_MAX;
  page->collective_active = 1;
  page->collective_start_ns = 1;
  page->collective_sequence = page->epochs_sequence = page->metrics_sequence =
      page->error_sequence = 2;
  memcpy(page->collective_name, kHostile, sizeof kHostile);
  memcpy(page->metrics[0].name, "\x1b[31m", 6);
  memcpy(page->error_text, kHostile, sizeof kHostile);
  page->error_length = UINT32_MAX;
  fprintf(stderr, "%s\n", kHostile);
  if (own_rank() != 0)
    for (;;) pause();
  return 3;
}

int main(int count, char** words) {
  (void)count;
  hvd_status_page* page = attach();
  if (!page || page->magic != HVD_STATUS_MAGIC || page->version != HVD_STATUS_VERSION) return 99;
  if (flag(words, "--hostile")) return be_hostile(page);
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  page->pid = (uint32_t)getpid();
  page->attached = 1;
  page->step = 42;
  page->collective_sequence = 1;
  page->collective_active = 1;
  page->collective_start_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
  strcpy(page->collective_name, "allreduce layer7.weight");
  page->collective_sequence = 2;
  page->error_sequence = 1;
  strcpy(page->error_text, "the loss is not a number");
  page->error_length = (uint32_t)strlen(page->error_text);
  page->error_sequence = 2;
  if (own_rank() != 0)
    for (;;) pause();
  raise(SIGKILL);
  return 0;
}
