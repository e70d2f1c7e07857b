/* busy --seconds S: uses S seconds of CPU time, then exits 0. */
#include "options.h"

#include <time.h>

int main(int argc, char** argv) {
  (void)argc;
  const double wanted = atof(option(argv, "--seconds", "1"));
  while ((double)clock() / CLOCKS_PER_SEC < wanted) {
  }
  return 0;
}
