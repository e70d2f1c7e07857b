/* Starts child processes, like the data loaders of training programs. Then it waits or runs another
 * program by exec.
 *
 *   spawner --pids FILE [--children N] [--setsid N] [--daemons N] [--ignore-term] [--clear-env]
 *           [-- program args…]
 *
 * --children: plain child processes. --setsid: children in sessions of their own. --daemons: forked
 * twice and in sessions of their own, so that their parent has ended. --ignore-term: all children
 * and the program ignore SIGINT and SIGTERM. --clear-env: the children run /bin/sleep with an empty
 * environment. Each child appends "KIND PID" to FILE; the spawner appends "rank PID" if it runs no
 * program. */
#include "options.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void stay(char** argv, const char* kind) {
  append_line(option(argv, "--pids", "/dev/null"), kind, getpid());
  if (flag(argv, "--clear-env")) {
    char* const words[] = {(char[]){"sleep"}, (char[]){"1000000"}, NULL};
    char* const nothing[] = {NULL};
    execve("/bin/sleep", words, nothing);
  }
  for (;;) pause();
}

static void start(char** argv, const char* kind, int new_session, int twice) {
  const pid_t child = fork();
  if (child < 0) exit(99);
  if (child > 0) {
    if (twice) waitpid(child, NULL, 0);
    return;
  }
  if (new_session) setsid();
  if (twice && fork() != 0) _exit(0);
  stay(argv, kind);
}

int main(int argc, char** argv) {
  if (flag(argv, "--ignore-term")) {
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
  }
  for (long i = number(argv, "--children", 0); i > 0; i--) start(argv, "child", 0, 0);
  for (long i = number(argv, "--setsid", 0); i > 0; i--) start(argv, "setsid", 1, 0);
  for (long i = number(argv, "--daemons", 0); i > 0; i--) start(argv, "daemon", 1, 1);
  for (int word = 1; word + 1 < argc; word++)
    if (strcmp(argv[word], "--") == 0) {
      execvp(argv[word + 1], argv + word + 1);
      perror(argv[word + 1]);
      return 99;
    }
  append_line(option(argv, "--pids", "/dev/null"), "rank", getpid());
  for (;;) pause();
}
