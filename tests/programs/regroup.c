/* regroup [--rounds N] [--differ] [--until FILE]: calls hvd_init with all ranks and with some of
 * them in turn, N times (default 10). Each time the ranks gather their numbers. Prints "fine" at
 * the end. --differ: the ranks give different lists. --until: the job's last rank makes the others
 * wait in a collective until FILE exists. Exit code 1: a call has failed; 2: the ranks are wrong.
 */
#include "options.h"

#include <hvd/hvd.h>
#include <unistd.h>

static void check(hvd_status status) {
  if (status == HVD_OK) return;
  fprintf(stderr, "%s\n", hvd_last_error());
  exit(1);
}

static void wait_for(const char* file) {
  while (access(file, F_OK) != 0) usleep(1000);
}

static void start(const int* ranks, size_t count) {
  hvd_init_options options = {0};
  options.struct_size = sizeof options;
  options.ranks = ranks;
  options.rank_count = count;
  check(hvd_init_with(&options));
}

/* Checks that the session's ranks are those of the list, in its order. */
static void expect(const int* ranks, size_t count) {
  int gathered[64] = {0};
  int own = own_rank();
  check(hvd_allgather(&own, 1, 1, HVD_INT32, gathered, 64, NULL, NULL));
  for (size_t i = 0; i < count; ++i) {
    if (hvd_size() == (int)count && gathered[i] == ranks[i]) continue;
    fprintf(stderr, "rank %d is with the wrong ranks\n", own);
    exit(2);
  }
}

static void round_of(const int* ranks, size_t count, int all) {
  for (size_t i = 0; i < count; ++i) {
    if (ranks[i] != own_rank()) continue;
    start(all ? NULL : ranks, all ? 0 : count);
    expect(ranks, count);
    check(hvd_shutdown());
  }
}

int main(int words_count, char** words) {
  (void)words_count;
  int size = atoi(getenv("HVD_SIZE"));
  int all[64], but_first[64];
  for (int rank = 0; rank < size; ++rank) {
    all[rank] = rank;
    but_first[rank] = size - 1 - rank; /* in reverse order, without rank 0 */
  }
  if (flag(words, "--differ")) {
    if (own_rank() < size - 1) start(all, own_rank() == 0 ? 2 : (size_t)size - 1);
    return 0;
  }
  if (option(words, "--until", NULL) && own_rank() > 0) {
    start(but_first, (size_t)size - 1);
    if (own_rank() == size - 1) wait_for(option(words, "--until", NULL));
    expect(but_first, (size_t)size - 1);
    check(hvd_shutdown());
  }
  for (long round = number(words, "--rounds", 10); round > 0; --round) {
    round_of(all, (size_t)size, 1);
    round_of(but_first, (size_t)size - 1, 0);
    round_of(all, 2, 0);
    round_of(all + 2, (size_t)size - 2, 0); /* at the same time as the previous one */
  }
  printf("fine\n");
  return 0;
}
