/* Runs the loop of loop.h in this process and in a child, each on its own processor. For loops
 * without a launcher. */
#ifndef HVD_BENCH_ALLREDUCE_LOOP_TWO_PROCESSES_H_
#define HVD_BENCH_ALLREDUCE_LOOP_TWO_PROCESSES_H_

#include "loop.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs the loop in both processes. Sets *rank to 0 here and to 1 in the child. Returns the exit
 * status for main(). `argv`: the sizes in bytes, after the first `skip` words. */
static inline int bench_run_two(bench_system system, int* rank, int skip, int argc, char** argv) {
  const pid_t child = fork();
  if (child < 0) return 1;
  *rank = child == 0;
  system.rank = *rank;
  cpu_set_t cpu;
  CPU_ZERO(&cpu);
  CPU_SET(*rank, &cpu);
  sched_setaffinity(0, sizeof cpu, &cpu);
  bench_run(&system, skip, argc, argv);
  fflush(stdout);
  if (child == 0) _exit(0);
  int status = 1;
  waitpid(child, &status, 0);
  return status != 0;
}

#endif
