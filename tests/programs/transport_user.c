/* transport_user [OPTION…]: large allreduces between hosts; prints hashes of the results. Compiled
 * twice: as transport_user, and with -DWITH_MPI as transport_user_mpi, which uses Open MPI itself.
 *   --two-hosts         even ranks are on one host to libhvd, odd ranks on another: each of these
 *                       has its own folder for shared memory in HVD_SHM_DIR
 *   --transport-of-1 T  HVD_TRANSPORT of rank 1
 *   --compression float16|bfloat16|int8  of all calls
 *   --again             also runs hvd_shutdown, hvd_init and the allreduces again
 *   --set               at the end reduces in a process set of ranks 0 and 1
 *   --until-death       prints "ready", then reduces until a call fails; prints its error and
 *                       exits with code 3 after SIGTERM
 *   --mpi plain|threads the program itself calls MPI_Init, or MPI_Init_thread with
 *                       MPI_THREAD_MULTIPLE
 *   --finalize-between  with --again: the program finalizes MPI before the second hvd_init
 * Exit code 1: a call has failed; its error is on stderr. */
#include "options.h"

#include <errno.h>
#include <hvd/hvd.h>
#include <signal.h>
#include <stdint.h>
#include <sys/stat.h>

#ifdef WITH_MPI
#include <mpi.h>
#endif

static void must(hvd_status status) {
  if (status == HVD_OK) return;
  fprintf(stderr, "%s\n", hvd_last_error());
  exit(1);
}

/* Fills with values whose sums are rounded, so that the bits depend on the order of addition. */
static void fill(float* values, size_t count, unsigned seed) {
  uint64_t state = seed * 2654435761u + (unsigned)hvd_rank() * 40503u + 1;
  for (size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    values[i] = (float)(state >> 40) / 1e6f - 8;
  }
}

static uint64_t hash(const float* values, size_t count) {
  const unsigned char* bytes = (const unsigned char*)values;
  uint64_t sum = 1469598103934665603u;
  for (size_t i = 0; i < count * sizeof *values; ++i) sum = (sum ^ bytes[i]) * 1099511628211u;
  return sum;
}

static const size_t sizes[] = {9000, 70001, 1000003, 3000000};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static int compression = HVD_COMPRESSION_NONE;

static int read_compression(char** words) {
  const char* form = option(words, "--compression", "");
  if (strcmp(form, "float16") == 0) return HVD_COMPRESSION_FLOAT16;
  if (strcmp(form, "bfloat16") == 0) return HVD_COMPRESSION_BFLOAT16;
  if (strcmp(form, "int8") == 0) return HVD_COMPRESSION_INT8;
  return HVD_COMPRESSION_NONE;
}

/* Reduces in the program's thread and in the engine's thread at the same time. */
static void reduce_all(const char* when) {
  for (int round = 0; round < SIZES; ++round) {
    const size_t count = sizes[round];
    float* here = malloc(count * sizeof *here);
    float* there = malloc(count * sizeof *there);
    fill(here, count, 2 * (unsigned)round);
    fill(there, count, 2 * (unsigned)round + 1);
    hvd_options options = {0};
    options.struct_size = sizeof options;
    options.name = "in the background";
    options.compression = compression;
    hvd_options unnamed = {0};
    unnamed.struct_size = sizeof unnamed;
    unnamed.compression = compression;
    hvd_handle handle;
    must(hvd_allreduce_async(there, there, count, HVD_FLOAT32, HVD_AVERAGE, &options, &handle));
    must(hvd_allreduce(here, here, count, HVD_FLOAT32, HVD_SUM, &unnamed));
    must(hvd_wait(handle));
    printf("%s rank %d: %zu %016llx %016llx\n", when, hvd_rank(), count,
           (unsigned long long)hash(here, count), (unsigned long long)hash(there, count));
    free(here);
    free(there);
  }
  fflush(stdout);
}

/* Reduces in a process set, which has its own streams. */
static void reduce_in_set(void) {
  const int ranks[] = {0, 1};
  int32_t set = 0;
  must(hvd_add_process_set(ranks, 2, &set));
  if (hvd_rank() < 2) {
    const size_t count = 500000;
    float* values = malloc(count * sizeof *values);
    fill(values, count, 77);
    hvd_options options = {0};
    options.struct_size = sizeof options;
    options.name = "in the set";
    options.process_set = set;
    must(hvd_allreduce(values, values, count, HVD_FLOAT32, HVD_SUM, &options));
    printf("set rank %d: %016llx\n", hvd_rank(), (unsigned long long)hash(values, count));
    fflush(stdout);
    free(values);
  }
  must(hvd_remove_process_set(set));
}

static int reduce_until_death(void) {
  const size_t count = 4000000;
  float* values = calloc(count, sizeof *values);
  must(hvd_allreduce(values, values, count, HVD_FLOAT32, HVD_SUM, NULL));
  printf("ready\n");
  fflush(stdout);
  while (hvd_allreduce(values, values, count, HVD_FLOAT32, HVD_SUM, NULL) == HVD_OK) continue;
  printf("rank %d: %s\n", hvd_rank(), hvd_last_error());
  fflush(stdout);
  must(hvd_shutdown());
  int number;
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigwait(&term, &number); /* a rank that ends sooner could be reported as the first failure */
  return 3;
}

/* Blocks SIGTERM before any thread starts, so that all threads inherit it. */
static void block_term(void) {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, NULL);
}

#ifdef WITH_MPI
static void start_mpi(int count, char** words) {
  int given;
  const char* how = option(words, "--mpi", "");
  if (strcmp(how, "plain") == 0) MPI_Init(&count, &words);
  if (strcmp(how, "threads") == 0) MPI_Init_thread(&count, &words, MPI_THREAD_MULTIPLE, &given);
}

/* Checks that the program itself can still use MPI, and finalizes it. */
static void end_mpi(char** words) {
  int sum = 1;
  int finalized;
  MPI_Finalized(&finalized);
  if (finalized || !option(words, "--mpi", NULL)) return;
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("MPI has %d ranks\n", sum);
  MPI_Finalize();
}
#else
static void start_mpi(int count, char** words) {
  (void)count, (void)words;
}

static void end_mpi(char** words) {
  (void)words;
}
#endif

/* Returns the rank under hvdrun and under mpirun; own_rank() works only under hvdrun. */
static int rank_at_start(void) {
  const char* text = getenv("OMPI_COMM_WORLD_RANK");
  return text ? atoi(text) : own_rank();
}

static void move_to_own_host(void) {
  char folder[4096];
  snprintf(folder, sizeof folder, "%s/%d", getenv("HVD_SHM_DIR"), rank_at_start() % 2);
  if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
    perror(folder);
    exit(99);
  }
  setenv("HVD_SHM_DIR", folder, 1);
}

int main(int count, char** words) {
  if (flag(words, "--two-hosts")) move_to_own_host();
  const char* other = option(words, "--transport-of-1", NULL);
  if (other && rank_at_start() == 1) setenv("HVD_TRANSPORT", other, 1);
  compression = read_compression(words);
  if (flag(words, "--until-death")) block_term();
  start_mpi(count, words);
  must(hvd_init());
  if (flag(words, "--until-death")) return reduce_until_death();
  reduce_all("first");
  if (flag(words, "--again")) {
    must(hvd_shutdown());
    if (flag(words, "--finalize-between")) end_mpi(words);
    must(hvd_init());
    reduce_all("second");
  }
  if (flag(words, "--set")) reduce_in_set();
  must(hvd_shutdown());
  end_mpi(words);
  return 0;
}
