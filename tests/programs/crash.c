/* One rank fails while the others wait.
 *
 *   crash [--rank R] [--exit CODE | --signal NUMBER] [--when FILE] [--say TEXT] [--ready FILE]
 *
 * Rank R (default 0) waits until FILE exists, prints TEXT on stderr, then exits or kills itself.
 * The others wait for ever. --ready: each rank first appends "RANK PID" to a file. */
#include "options.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

static void wait_for(const char* path) {
  const struct timespec pause = {0, 1000000};
  while (access(path, F_OK) != 0) nanosleep(&pause, NULL);
}

int main(int argc, char** argv) {
  (void)argc;
  const char* ready = option(argv, "--ready", NULL);
  const char* when = option(argv, "--when", NULL);
  const char* text = option(argv, "--say", NULL);
  const int signal_number = (int)number(argv, "--signal", 0);
  if (ready) {
    char rank[16];
    snprintf(rank, sizeof rank, "%d", own_rank());
    append_line(ready, rank, getpid());
  }
  if (own_rank() != number(argv, "--rank", 0))
    for (;;) pause();
  if (when) wait_for(when);
  if (text) fprintf(stderr, "%s\n", text);
  if (signal_number) {
    signal(signal_number, SIG_DFL);
    raise(signal_number);
  }
  return (int)number(argv, "--exit", 0);
}
