#include "common/thread.hpp"

#include "common/system.hpp"

#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

namespace common {

Result<std::thread, std::string> start_thread(const std::string& does, std::function<void()> body,
                                              std::initializer_list<int> open) {
  const SignalsBlocked blocked(open);  // the new thread inherits it
  int error = ENOMEM;
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& thrown) {
    error = thrown.code().value();
  } catch (const std::bad_alloc&) {
  }
  return "cannot start the thread that " + does + ": " + std::strerror(error);
}

}  // namespace common
