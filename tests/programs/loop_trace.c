/* Preloaded into hvdrun: finds turns of the event loops of launcher and agent in which the thread
 * slept. Appends "NAME turn MS" to the file $HVD_LOOP_TRACE for each turn in which it slept for
 * more than 2 ms, and "NAME begins" for the first turn of each process. Instead of "turn" it says
 * "start" if the turn has started ranks, and "wait" if it has waited by poll(2) for the end of the
 * guard. A sleep is time in which the thread neither runs nor waits for a processor. */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LONGEST_MS 2.0

static volatile int has_started;
static int has_waited;

static double ms_of(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

/* Returns how long this thread has waited for a processor (Linux,
 * Documentation/scheduler/sched-stats.rst). */
static double delayed_ms(void) {
  unsigned long long ran = 0, waited = 0;
  FILE* file = fopen("/proc/thread-self/schedstat", "re");
  if (!file) return 0;
  const int got = fscanf(file, "%llu %llu", &ran, &waited);
  fclose(file);
  return got == 2 ? (double)waited / 1e6 : 0;
}

static double slept_ms(void) {
  return ms_of(CLOCK_MONOTONIC) - ms_of(CLOCK_THREAD_CPUTIME_ID) - delayed_ms();
}

static int is_loop_of_hvdrun(char name[16]) {
  if (syscall(SYS_gettid) != getpid()) return 0;
  prctl(PR_GET_NAME, name);
  return strcmp(name, "hvdrun") == 0 || strcmp(name, "hvdrun-agent") == 0;
}

/* A rank calls it between vfork and exec, while it shares the agent's memory. */
pid_t setsid(void) {
  has_started = 1;
  return (pid_t)syscall(SYS_setsid);
}

int poll(struct pollfd* fds, nfds_t count, int timeout) {
  if (timeout > 0) has_waited = 1;
  const struct timespec time = {timeout / 1000, timeout % 1000 * 1000000L};
  return (int)syscall(SYS_ppoll, fds, count, timeout < 0 ? NULL : &time, NULL, 0);
}

int epoll_wait(int epoll, struct epoll_event* events, int most, int timeout) {
  static int (*real)(int, struct epoll_event*, int, int);
  static double begin = -1;
  static pid_t of; /* a process that was forked begins anew */
  if (!real) {
    void* const next = dlsym(RTLD_NEXT, "epoll_wait");
    memcpy(&real, &next, sizeof real);
  }
  char name[16] = "";
  const char* path = getenv("HVD_LOOP_TRACE");
  if (!path || !is_loop_of_hvdrun(name)) return real(epoll, events, most, timeout);
  if (begin >= 0 && of == getpid()) {
    const double slept = slept_ms() - begin;
    FILE* file = slept > LONGEST_MS ? fopen(path, "ae") : NULL;
    const char* const what = has_started ? "start" : has_waited ? "wait" : "turn";
    if (file) fprintf(file, "%s %s %.1f\n", name, what, slept);
    if (file) fclose(file);
  }
  if (of != getpid()) {
    FILE* file = fopen(path, "ae");
    if (file) fprintf(file, "%s begins\n", name);
    if (file) fclose(file);
  }
  const int count = real(epoll, events, most, timeout);
  const int error = errno;
  has_started = has_waited = 0;
  of = getpid();
  begin = slept_ms();
  errno = error;
  return count;
}
