#include "base/result.hpp"

#include <cerrno>
#include <cstring>

#include <sys/resource.h>

namespace hvdrun {

Error fail_errno(std::string what, int errno_value, int exit_code) {
  char text[256];
  what += ": ";
  what += strerror_r(errno_value, text, sizeof text);
  rlimit limit{};
  if (errno_value == EMFILE && ::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    what += " (this process may have " + std::to_string(limit.rlim_cur) + "; raise ulimit -n)";
  if (errno_value == EFBIG && ::getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
      limit.rlim_cur != RLIM_INFINITY)
    what += " (this process may write " + std::to_string(limit.rlim_cur) +
            " bytes into a file; raise ulimit -f)";
  return fail(std::move(what), exit_code);
}

Error with_context(std::string context, Error error) {
  error.message = std::move(context) + ": " + error.message;
  return error;
}

}  // namespace hvdrun
