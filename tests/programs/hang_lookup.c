/* A library to preload: in the program that HANG_LOOKUP_IN names, a look-up of the name
 * "hangs.invalid" never ends. It makes the file that HANG_LOOKUP_MARK names, and then hangs. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int getaddrinfo(const char* node, const char* service, const struct addrinfo* hints,
                struct addrinfo** result) {
  int (*function)(const char*, const char*, const struct addrinfo*, struct addrinfo**);
  const char* mark = getenv("HANG_LOOKUP_MARK");
  const char* where = getenv("HANG_LOOKUP_IN");
  if (node != NULL && mark != NULL && where != NULL && strcmp(node, "hangs.invalid") == 0 &&
      strcmp(where, program_invocation_short_name) == 0) {
    close(open(mark, O_WRONLY | O_CREAT, 0600));
    for (;;) pause();
  }
  void* const next = dlsym(RTLD_NEXT, "getaddrinfo");
  memcpy(&function, &next, sizeof function);
  return function(node, service, hints, result);
}
