#include "c_api/process.hpp"

namespace libhvd {

Process& process() {
  static auto* const only = new Process;
  return *only;
}

}  // namespace libhvd
