/* Prints numbered lines "r<rank> <counter> xxx…" fast. Each has --length bytes with its newline.
 *
 *   print_lines [--lines N] [--length L] [--stderr | --alternate] [--no-newline]
 *               [--progress FILE]
 *
 * --alternate: odd lines to stderr. --no-newline: the last line lacks its newline. --progress FILE:
 * appends the number of written bytes after each megabyte, so that a test sees a blocked rank. */
#include "options.h"

#include <unistd.h>

static void write_all(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t written = write(fd, data, size);
    if (written < 0) exit(98);
    data += written;
    size -= (size_t)written;
  }
}

static void fill_line(char* line, size_t length, long counter) {
  memset(line, 'x', length);
  const int head = snprintf(line, length, "r%d %ld ", own_rank(), counter);
  if ((size_t)head < length) line[head] = 'x';
  line[length - 1] = '\n';
}

int main(int argc, char** argv) {
  (void)argc;
  enum { kBuffer = 1 << 16 };
  const long lines = number(argv, "--lines", 10);
  const size_t length = (size_t)number(argv, "--length", 100);
  const char* progress = option(argv, "--progress", NULL);
  const int alternate = flag(argv, "--alternate");
  const int fd = flag(argv, "--stderr") ? 2 : 1;
  const size_t capacity = length > kBuffer || alternate ? length : kBuffer - kBuffer % length;
  char* buffer = malloc(capacity + 1);
  size_t used = 0, total = 0;
  for (long counter = 0; counter < lines; counter++) {
    fill_line(buffer + used, length, counter);
    used += length;
    if (counter == lines - 1 && flag(argv, "--no-newline")) used--;
    if (used + length <= capacity && counter < lines - 1) continue;
    write_all(alternate && counter % 2 ? 2 : fd, buffer, used);
    if (progress && (total >> 20) != ((total + used) >> 20))
      append_line(progress, "bytes", (long)(total + used));
    total += used;
    used = 0;
  }
  free(buffer);
  return 0;
}
