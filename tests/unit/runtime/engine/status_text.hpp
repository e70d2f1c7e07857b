#pragma once

#include <string>

#include <hvd/hvd.h>

namespace libhvd::test {

// Returns "ok", or the message of this thread's last error.
inline std::string text_of(hvd_status status) {
  return status == HVD_OK ? "ok" : hvd_last_error();
}

}  // namespace libhvd::test
