/* memory_hog --megabytes M: touches M MiB of memory, then exits 0. */
#include "options.h"

int main(int argc, char** argv) {
  (void)argc;
  const size_t size = (size_t)number(argv, "--megabytes", 64) << 20;
  volatile char* memory = malloc(size);
  if (!memory) return 99;
  for (size_t at = 0; at < size; at += 4096) memory[at] = 1;
  return memory[size - 1] == 2;
}
