/* A library for LD_PRELOAD that simulates pages of 64 KiB (POWER, some aarch64 kernels): for
 * offsets of shared file mappings and for sysconf(_SC_PAGESIZE). Addresses are those of the real
 * system. */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 65536

typedef void* mmap_function(void*, size_t, int, int, int, off_t);
typedef long sysconf_function(int);

void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
  static mmap_function* real;
  if (!real) *(void**)&real = dlsym(RTLD_NEXT, "mmap");
  /* Not for private mappings: the loader maps files that are linked for pages of 4 KiB. */
  if (file >= 0 && (flags & MAP_SHARED) && offset % PAGE != 0) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  return real(address, bytes, protection, flags, file, offset);
}

void* mmap64(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
  return mmap(address, bytes, protection, flags, file, offset);
}

long sysconf(int name) {
  static sysconf_function* real;
  if (!real) *(void**)&real = dlsym(RTLD_NEXT, "sysconf");
  return name == _SC_PAGESIZE ? PAGE : real(name);
}
