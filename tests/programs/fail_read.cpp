// A library to preload: in the agent, a read(2) of a file below /proc whose name ends with
// $FAIL_READ_OF fails as if the process had ended since open(2). It makes the file $FAIL_READ_MARK
// then.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

namespace {

bool is_to_fail(int fd) {
  const char* const ending = std::getenv("FAIL_READ_OF");
  if (ending == nullptr) return false;
  char name[32] = {};
  if (FILE* const file = std::fopen("/proc/self/comm", "r"); file != nullptr) {
    if (std::fgets(name, sizeof name, file) == nullptr) name[0] = '\0';
    std::fclose(file);
  }
  if (std::strcmp(name, "hvdrun-agent\n") != 0) return false;
  char link[64];
  char path[256] = {};
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (::readlink(link, path, sizeof path - 1) < 0) return false;
  const auto length = std::strlen(path);
  const auto end = std::strlen(ending);
  return std::strncmp(path, "/proc/", 6) == 0 && length > end &&
         std::strcmp(path + length - end, ending) == 0;
}

}  // namespace

extern "C" ssize_t read(int fd, void* buffer, size_t size) {
  static thread_local bool is_inside = false;
  using Read = ssize_t (*)(int, void*, size_t);
  static const auto next = reinterpret_cast<Read>(::dlsym(RTLD_NEXT, "read"));
  if (!is_inside) {
    is_inside = true;
    const bool fails = is_to_fail(fd);
    is_inside = false;
    if (fails) {
      if (const char* const mark = std::getenv("FAIL_READ_MARK"); mark != nullptr)
        ::close(::open(mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
      errno = ESRCH;
      return -1;
    }
  }
  return next(fd, buffer, size);
}

extern "C" ssize_t __read_chk(int fd, void* buffer, size_t size, size_t /*room*/) {  // NOLINT
  return read(fd, buffer, size);
}
