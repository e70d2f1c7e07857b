/* Scenarios of PMIx clients on several hosts. Each checks its results and ends with 0 if all are
 * right.
 *
 *   pmix_exchange SCENARIO
 *
 * Each scenario is a function below. */
#include "options.h"

#include <pmix.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { kBytes = 1024, kInARow = 30, kMaxRanks = 256 };

static pmix_proc_t self;
static uint32_t size;

#define CHECK(condition)                                                                         \
  do {                                                                                           \
    if (!(condition)) {                                                                          \
      fprintf(stderr, "rank %u, line %d: does not hold: %s\n", self.rank, __LINE__, #condition); \
      exit(97);                                                                                  \
    }                                                                                            \
  } while (0)

static void expect(pmix_status_t status, pmix_status_t expected, int line) {
  if (status == expected) return;
  fprintf(stderr, "rank %u, line %d: %s instead of %s\n", self.rank, line,
          PMIx_Error_string(status), PMIx_Error_string(expected));
  exit(98);
}
#define MUST(call) expect((call), PMIX_SUCCESS, __LINE__)
#define MUST_BE(expected, call) expect((call), (expected), __LINE__)

static pmix_proc_t proc_of(uint32_t rank) {
  pmix_proc_t proc;
  PMIX_LOAD_PROCID(&proc, self.nspace, rank);
  return proc;
}

static char byte_of(uint32_t rank, int round) {
  return (char)(rank * 31 + (uint32_t)round * 7 + 1);
}

/* Puts a kilobyte whose content depends on rank and round. */
static void put(const char* key, int round) {
  char bytes[kBytes];
  memset(bytes, byte_of(self.rank, round), sizeof bytes);
  pmix_value_t value = {.type = PMIX_BYTE_OBJECT,
                        .data.bo = {.bytes = bytes, .size = sizeof bytes}};
  MUST(PMIx_Put(PMIX_GLOBAL, key, &value));
  MUST(PMIx_Commit());
}

static pmix_status_t get(uint32_t rank, const char* key, int round, int timeout) {
  pmix_info_t info;
  PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &timeout, PMIX_INT);
  const pmix_proc_t proc = proc_of(rank);
  pmix_value_t* value = NULL;
  const pmix_status_t status =
      PMIx_Get(&proc, key, timeout ? &info : NULL, timeout ? 1 : 0, &value);
  if (status != PMIX_SUCCESS) return status;
  CHECK(value->type == PMIX_BYTE_OBJECT && value->data.bo.size == kBytes);
  for (int i = 0; i < kBytes; i++) CHECK(value->data.bo.bytes[i] == byte_of(rank, round));
  PMIX_VALUE_RELEASE(value);
  return PMIX_SUCCESS;
}

static void get_from_all(const char* key, int round) {
  for (uint32_t rank = 0; rank < size; rank++) MUST(get(rank, key, round, 0));
}

/* A fence of all ranks. */
static pmix_status_t fence(bool collect, int timeout) {
  pmix_info_t infos[2];
  PMIX_INFO_LOAD(&infos[0], PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
  PMIX_INFO_LOAD(&infos[1], PMIX_TIMEOUT, &timeout, PMIX_INT);
  return PMIx_Fence(NULL, 0, infos, 2);
}

static void collected(void) {
  put("key", 0);
  MUST(fence(true, 0));
  get_from_all("key", 0);
}

/* The fence collects no data, so each rank requests the values that it gets. */
static void direct(void) {
  put("key", 0);
  MUST(fence(false, 0));
  get_from_all("key", 0);
}

/* No fence before the gets: a value that is missing arrives when its rank commits it. */
static void unfenced(void) {
  const uint32_t next = (self.rank + 1) % size;
  if (self.rank == 0) MUST(get(size - 1, "key", 0, 0));
  put("key", 0);
  MUST(get(next, "key", 0, 0));
  MUST(fence(false, 0));
}

static void in_a_row(void) {
  for (int round = 0; round < kInARow; round++) {
    char key[16];
    snprintf(key, sizeof key, "key%d", round);
    put(key, round);
    MUST(fence(round % 3 != 0, 0));
    MUST(get((self.rank + (uint32_t)round) % size, key, round, 0));
  }
}

/* Rank 0 prints the milliseconds that it spent in each fence. */
static void timed(void) {
  for (int round = 0; round < kInARow; round++) {
    struct timespec begin, end;
    put("key", round);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    MUST(fence(true, 0));
    clock_gettime(CLOCK_MONOTONIC, &end);
    const double seconds =
        (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    if (self.rank == 0) printf("%.4f\n", 1000 * seconds);
  }
}

static void fence_of(const pmix_proc_t* procs, size_t count) {
  bool collect = true;
  pmix_info_t info;
  PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
  MUST(PMIx_Fence(procs, count, &info, 1));
}

/* Fences of all even or all odd ranks, then of ranks R and N - 1 - R, then of all ranks as a list;
 * several times. */
static void groups(void) {
  pmix_proc_t procs[kMaxRanks];
  put("key", 0);
  for (int round = 0; round < 5; round++) {
    size_t count = 0;
    for (uint32_t rank = self.rank % 2; rank < size; rank += 2) procs[count++] = proc_of(rank);
    fence_of(procs, count);
    MUST(get((self.rank + 2) % size, "key", 0, 0));
    const uint32_t mirror = size - 1 - self.rank;
    procs[0] = proc_of(mirror); /* not in the order of ranks */
    procs[1] = self;
    fence_of(procs, mirror == self.rank ? 1 : 2);
    MUST(get(mirror, "key", 0, 0));
    for (uint32_t rank = 0; rank < size; rank++) procs[rank] = proc_of(size - 1 - rank);
    fence_of(procs, size);
  }
  get_from_all("key", 0);
}

static void count_down(pmix_status_t status, void* context) {
  expect(status, PMIX_SUCCESS, __LINE__);
  __atomic_sub_fetch((int*)context, 1, __ATOMIC_RELEASE);
}

/* Fences with each other rank, all at the same time. */
static void in_flight(void) {
  static pmix_proc_t pairs[kMaxRanks][2];
  for (int round = 0; round < 5; round++) {
    int open = (int)size - 1;
    for (uint32_t step = 1; step < size; step++) {
      const uint32_t peer = (self.rank + step) % size;
      pairs[peer][0] = self;
      pairs[peer][1] = proc_of(peer);
      MUST(PMIx_Fence_nb(pairs[peer], 2, NULL, 0, count_down, &open));
    }
    while (__atomic_load_n(&open, __ATOMIC_ACQUIRE) > 0) usleep(100);
  }
}

static uint32_t number_of(uint32_t rank, const char* key) {
  const pmix_proc_t proc = proc_of(rank);
  pmix_value_t* value = NULL;
  MUST(PMIx_Get(&proc, key, NULL, 0, &value));
  const uint32_t number = value->type == PMIX_UINT16 ? value->data.uint16 : value->data.uint32;
  PMIX_VALUE_RELEASE(value);
  return number;
}

/* Prints what libraries request to find ranks of the same host: for the job, this and the last
 * rank. */
static void places(void) {
  pmix_value_t* value = NULL;
  const pmix_proc_t job = proc_of(PMIX_RANK_WILDCARD);
  MUST(PMIx_Get(&job, PMIX_LOCAL_PEERS, NULL, 0, &value));
  printf("host %u of %u, peers %s of %u", number_of(self.rank, PMIX_NODEID),
         number_of(PMIX_RANK_WILDCARD, PMIX_NUM_NODES), value->data.string,
         number_of(PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE));
  PMIX_VALUE_RELEASE(value);
  const uint32_t ranks[] = {self.rank, size - 1};
  for (int i = 0; i < 2; i++) {
    const pmix_proc_t proc = proc_of(ranks[i]);
    MUST(PMIx_Get(&proc, PMIX_HOSTNAME, NULL, 0, &value));
    printf(", %u on %s as %u", ranks[i], value->data.string, number_of(ranks[i], PMIX_LOCAL_RANK));
    PMIX_VALUE_RELEASE(value);
  }
  printf("\n");
}

/* The last rank enters a fence only after its time limit has passed on the others. All ranks get
 * the same error, and the next fence works. */
static void late(void) {
  if (self.rank == size - 1) MUST(get(0, "late", 0, 0));
  MUST_BE(PMIX_ERR_TIMEOUT, fence(true, 1));
  if (self.rank == 0) put("late", 0);
  MUST(fence(true, 0));
}

/* Rank 0 twice requests a key in vain. The last rank then puts it, and rank 0 requests it again. */
static void late_put(void) {
  if (self.rank == 0) {
    MUST_BE(PMIX_ERR_TIMEOUT, get(size - 1, "key", 0, 1));
    MUST_BE(PMIX_ERR_TIMEOUT, get(size - 1, "key", 0, 1));
    put("given up", 0);
    MUST(get(size - 1, "key", 0, 0));
  }
  if (self.rank == size - 1) {
    MUST(get(0, "given up", 0, 0));
    put("key", 0);
  }
  MUST(fence(false, 0));
}

/* The last rank puts nothing and finalizes. Requests for its key get an error. */
static void never_put(void) {
  if (self.rank == size - 1) return;
  MUST_BE(PMIX_ERR_NOT_FOUND, get(size - 1, "key", 0, 0));
}

static void ignore(pmix_status_t status, void* context) {
  (void)status;
  (void)context;
}

/* The last rank puts a key and finalizes. Rank 0 requests the key after that. */
static void legacy(void) {
  if (self.rank == size - 1) put("key", 0);
  if (self.rank != 0) return;
  MUST_BE(PMIX_ERR_NOT_FOUND, get(size - 2, "key", 0, 0)); /* answered once that rank has ended */
  MUST(get(size - 1, "key", 0, 0));
}

/* Rank 0 dies in a fence. The others end with any result of their fence. */
static void death(void) {
  if (self.rank == 0) {
    MUST(PMIx_Fence_nb(NULL, 0, NULL, 0, ignore, NULL));
    raise(SIGKILL);
  }
  fence(false, 0);
}

/* The last rank never enters a fence. The others print the result of theirs. */
static void absence(void) {
  if (self.rank == size - 1) pause();
  printf("%s\n", PMIx_Error_string(fence(true, 0)));
}

/* The last rank never puts a key. Rank 0 requests it and prints the result. */
static void silence(void) {
  if (self.rank == size - 1) pause();
  if (self.rank == 0) printf("%s\n", PMIx_Error_string(get(size - 1, "key", 0, 0)));
}

int main(int argc, char** argv) {
  const struct {
    const char* name;
    void (*run)(void);
  } scenarios[] = {
      {"collected", collected}, {"direct", direct},   {"unfenced", unfenced},
      {"in_a_row", in_a_row},   {"groups", groups},   {"in_flight", in_flight},
      {"places", places},       {"late", late},       {"late_put", late_put},
      {"never_put", never_put}, {"death", death},     {"absence", absence},
      {"legacy", legacy},       {"silence", silence}, {"timed", timed},
  };
  if (argc < 2) return 2;
  MUST(PMIx_Init(&self, NULL, 0));
  size = number_of(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
  CHECK(size <= kMaxRanks);
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
    if (strcmp(argv[1], scenarios[i].name) == 0) {
      scenarios[i].run();
      MUST(PMIx_Finalize(NULL, 0));
      return 0;
    }
  fprintf(stderr, "there is no scenario %s\n", argv[1]);
  return 2;
}
