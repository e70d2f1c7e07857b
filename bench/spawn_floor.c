/* spawn_floor N program args…: starts N processes as plainly as can be and waits for all of them.
 * What a launcher costs is measured against this. */
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  for (int left = atoi(argv[1]); left > 0; left--) {
    pid_t child;
    if (posix_spawn(&child, argv[2], NULL, NULL, argv + 2, environ) != 0) return 1;
  }
  int status = 0, worst = 0;
  while (wait(&status) > 0)
    if (status != 0) worst = 1;
  return worst;
}
