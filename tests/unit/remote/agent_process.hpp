// Helpers for tests that run an agent as a child process.
#pragma once

#include "channels/child_process.hpp"

#include <cerrno>
#include <string>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {

// Reads until the end of file.
inline std::string read_all(const Fd& from) {
  std::string text;
  char buffer[4096];
  while (true) {
    pollfd waiting{from.get(), POLLIN, 0};
    ::poll(&waiting, 1, -1);
    const ssize_t got = ::read(from.get(), buffer, sizeof buffer);
    if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return text;
  }
}

// Waits for the process. Returns its exit code, or -1 if a signal ended it.
inline int wait_for(const ChildProcess& process) {
  int status = 0;
  EXPECT_EQ(::waitpid(process.pid, &status, 0), process.pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace hvdrun
