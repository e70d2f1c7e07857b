/* core_ping CPU CPU: prints the ns in which a cache line moves from one processor to another and
 * back. It is the best of many rounds, so that other programs have no influence. Two hyperthreads
 * of one core share their caches and take less than half the time of two cores. A virtual machine
 * does not show which of both it has. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 400, TRIPS = 500 };

static _Alignas(128) atomic_uint line;

static void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    perror("core_ping");
    exit(1);
  }
}

/* Answers each change of the line with another one. */
static void* answer(void* cpu) {
  pin(*(int*)cpu);
  for (unsigned step = 1; step < 2 * ROUNDS * TRIPS; step += 2) {
    while (atomic_load_explicit(&line, memory_order_acquire) != step) {
    }
    atomic_store_explicit(&line, step + 1, memory_order_release);
  }
  return NULL;
}

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  int other = atoi(argv[2]);
  pthread_t thread;
  if (pthread_create(&thread, NULL, answer, &other) != 0) return 1;
  pin(atoi(argv[1]));
  double best = 1e12;
  unsigned step = 0;
  for (int round = 0; round < ROUNDS; ++round) {
    const double begin = now_ns();
    for (int trip = 0; trip < TRIPS; ++trip, step += 2) {
      atomic_store_explicit(&line, step + 1, memory_order_release);
      while (atomic_load_explicit(&line, memory_order_acquire) != step + 2) {
      }
    }
    const double each = (now_ns() - begin) / TRIPS;
    if (each < best) best = each;
  }
  pthread_join(thread, NULL);
  printf("%.0f\n", best);
  return 0;
}
