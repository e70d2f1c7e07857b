// The runtime's threads. They are started as common/thread.hpp does; the error is one of libhvd's.
#pragma once

#include "base/error.hpp"
#include "common/thread.hpp"

#include <functional>
#include <initializer_list>
#include <string>
#include <thread>
#include <utility>

namespace libhvd {

// Error (HVD_ERROR_SYSTEM): there are too many threads, or no memory.
inline Result<std::thread> start_thread(const std::string& does, std::function<void()> body,
                                        std::initializer_list<int> open = {}) {
  auto started = common::start_thread(does, std::move(body), open);
  if (!started.ok()) return fail(HVD_ERROR_SYSTEM, started.error());
  return std::move(*started);
}

}  // namespace libhvd
