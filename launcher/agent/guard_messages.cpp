#include "agent/guard_messages.hpp"

#include <csignal>

#include <unistd.h>

namespace hvdrun {
namespace {

void send(pid_t guard, int signal, int value) {
  if (::getppid() == guard) ::sigqueue(guard, signal, {.sival_int = value});
}

}  // namespace

int exit_signal() {
  return SIGRTMIN + 1;
}

int end_begins_signal() {
  return SIGRTMIN + 2;
}

void report_end_begins(pid_t guard, std::chrono::milliseconds within) {
  send(guard, end_begins_signal(), static_cast<int>(within.count()));
}

void report_exit(pid_t guard, int code) {
  send(guard, exit_signal(), code);
}

}  // namespace hvdrun
