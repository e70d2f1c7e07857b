#include "base/error.hpp"

#include <cstring>

namespace libhvd {

Error fail_errno(std::string what, int errno_value) {
  return fail(HVD_ERROR_SYSTEM, std::move(what) + ": " + std::strerror(errno_value));
}

Error with_context(const std::string& context, Error error) {
  error.message = context + ": " + error.message;
  return error;
}

}  // namespace libhvd
