#include "base/result.hpp"

#include <cstring>

namespace hvdrun {

tl::unexpected<Error> fail_errno(std::string what, int errno_value, int exit_code) {
  char text[256];
  what += ": ";
  what += strerror_r(errno_value, text, sizeof text);
  return fail(std::move(what), exit_code);
}

Error with_context(std::string context, Error error) {
  error.message = std::move(context) + ": " + error.message;
  return error;
}

}  // namespace hvdrun
