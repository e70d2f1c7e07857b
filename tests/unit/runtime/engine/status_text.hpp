#pragma once

#include <string>

#include <hvd/hvd.h>

namespace libhvd::test {

// "ok", or why this thread's last call failed.
inline std::string text_of(hvd_status status) {
  return status == HVD_OK ? "ok" : hvd_last_error();
}

}  // namespace libhvd::test
