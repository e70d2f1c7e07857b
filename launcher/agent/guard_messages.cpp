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

int time_left_signal() {
  return SIGRTMIN + 2;
}

int question_signal() {
  return SIGRTMIN + 3;
}

void report_exit(pid_t guard, int code) {
  send(guard, exit_signal(), code);
}

void report_time_left(pid_t guard, std::optional<std::chrono::milliseconds> time) {
  send(guard, time_left_signal(), time ? static_cast<int>(time->count()) : -1);
}

}  // namespace hvdrun
