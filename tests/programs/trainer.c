/* trainer [--late RANK] [--init FILE] [--until FILE] [--ready FILE] [--lines N]: a training program
 * that only reports progress. The late rank calls hvd_init once the FILE of --init exists. Each
 * rank reports 64 samples every 2 ms, from step 1204 of 9380 up to step 9000, in epoch 2 of 20,
 * until the FILE of --until exists. --ready: appends a line to FILE after the first report. Rank 0
 * prints a line every 5 reports, N in total. */
#include "options.h"

#include <hvd/hvd.h>
#include <unistd.h>

static int is_there(const char* file) {
  return !file || access(file, F_OK) == 0;
}

static void must(hvd_status status) {
  if (status == HVD_OK) return;
  fprintf(stderr, "%s\n", hvd_last_error());
  exit(1);
}

int main(int count, char** words) {
  (void)count;
  if (own_rank() == number(words, "--late", -1))
    while (!is_there(option(words, "--init", NULL))) usleep(1000);
  must(hvd_init());
  hvd_progress_values now = {0};
  now.struct_size = sizeof now;
  now.known = HVD_PROGRESS_STEP | HVD_PROGRESS_STEPS | HVD_PROGRESS_SAMPLES | HVD_PROGRESS_EPOCH |
              HVD_PROGRESS_EPOCHS | HVD_PROGRESS_LOSS;
  now.step = 1204;
  now.steps = 9380;
  now.samples = 64;
  now.epoch = 2;
  now.epochs = 20;
  now.loss = 0.12;
  const long lines = number(words, "--lines", 0);
  long said = 0;
  for (long i = 0; !is_there(option(words, "--until", NULL)); ++i) {
    must(hvd_progress(&now));
    if (i == 0 && option(words, "--ready", NULL))
      append_line(option(words, "--ready", NULL), "pid", getpid());
    if (now.step < 9000) ++now.step;
    if (own_rank() == 0 && said < lines && i % 5 == 0) {
      printf("line %ld\n", said++);
      fflush(stdout);
    }
    usleep(2000);
  }
  puts("trained");
  must(hvd_shutdown());
  return 0;
}
