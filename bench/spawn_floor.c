/* spawn_floor N program args…: starts N processes with posix_spawn and waits for all of them. The
 * benches compare launchers with this lower limit. */
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
