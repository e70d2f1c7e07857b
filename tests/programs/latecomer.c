/* latecomer [--late RANK] [--until FILE] [--name NAME] [--killed] [--fails] [--then FILE]: all
 * ranks call an allreduce named NAME (default grad.3). The late rank (default 0) first waits until
 * the FILE of --until exists. --killed: it then kills itself. --fails: it instead makes an error
 * and exits with code 3; its exit waits for a signal. --then: all ranks end once that FILE exists.
 * Exit code 1: the allreduce has failed; 99: another call has failed. */
#include "options.h"

#include <hvd/hvd.h>
#include <signal.h>
#include <unistd.h>

static void wait_for(const char* file) {
  while (file && access(file, F_OK) != 0) usleep(1000);
}

static void wait_for_a_signal(void) {
  pause();
}

int main(int count, char** words) {
  (void)count;
  if (flag(words, "--fails") && own_rank() == number(words, "--late", 0))
    atexit(wait_for_a_signal); /* before hvd_init, so that it runs after libhvd's exit handler */
  if (hvd_init() != HVD_OK) {
    fprintf(stderr, "%s\n", hvd_last_error());
    return 99;
  }
  if (own_rank() == number(words, "--late", 0)) {
    wait_for(option(words, "--until", NULL));
    if (flag(words, "--killed")) raise(SIGKILL);
    if (flag(words, "--fails")) {
      hvd_set_metric(NULL, 1);
      fprintf(stderr, "%s\n", hvd_last_error());
      return 3;
    }
  }
  hvd_options options = {0};
  options.struct_size = sizeof options;
  options.name = option(words, "--name", "grad.3");
  float value = 1;
  if (hvd_allreduce(&value, &value, 1, HVD_FLOAT32, HVD_SUM, &options) != HVD_OK) {
    fprintf(stderr, "%s\n", hvd_last_error());
    return 1;
  }
  wait_for(option(words, "--then", NULL));
  return hvd_shutdown() == HVD_OK ? 0 : 99;
}
