#include "common/uncaught.hpp"

#include "common/system.hpp"

#include <array>
#include <cstdio>
#include <exception>
#include <string>

#include <sys/prctl.h>
#include <unistd.h>

namespace common {
namespace {

int exit_code_of_faults = 1;

[[noreturn]] void end_after_fault() {
  std::string what = "an unknown exception";
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    what = error.what();
  } catch (...) {
  }
  std::array<char, 17> name{};
  ::prctl(PR_GET_NAME, name.data());
  std::fprintf(stderr, "hvdrun: error: %s: %s has a fault: %s; please report it\n",
               local_host_name().c_str(), name.data(), what.c_str());
  ::_exit(exit_code_of_faults);
}

}  // namespace

void report_uncaught(int exit_code) {
  exit_code_of_faults = exit_code;
  std::set_terminate(end_after_fault);
}

}  // namespace common
