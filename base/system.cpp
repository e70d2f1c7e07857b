#include "base/system.hpp"

#include "common/file_content.hpp"
#include "common/system.hpp"
#include "common/text.hpp"
#include "common/thread.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace hvdrun {

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("cannot make a pipe", errno);
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

Result<void> set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return fail_errno("cannot make a descriptor non-blocking", errno);
  return {};
}

bool is_short_of_memory(int errno_value) {
  return errno_value == ENOMEM || errno_value == ENOBUFS;
}

void end_process(const std::string& what, int errno_value) {
  const Error error = fail_errno(what, errno_value);
  std::fprintf(stderr, "hvdrun: error: %s: %s\n", local_host_name().c_str(), error.message.c_str());
  ::_exit(kExitLauncher);
}

std::string random_hex(std::size_t bytes) {
  std::vector<std::uint8_t> raw(bytes);
  if (!fill_random(raw)) end_process("cannot get random bytes", errno);
  return to_hex(raw);
}

void set_process_name(const std::string& name) {
  ::prctl(PR_SET_NAME, name.c_str());
  // "pid (name) state …", see proc(5); where argv begins and ends is 45 and 46 after the state.
  const auto stat = content_of("/proc/self/stat");
  std::istringstream words(stat.substr(stat.rfind(')') + 1));
  std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
  constexpr std::size_t kArgumentsBegin = 45;
  if (fields.size() <= kArgumentsBegin + 1) return;
  const auto begin = std::stoull(fields[kArgumentsBegin]);
  const auto end = std::stoull(fields[kArgumentsBegin + 1]);
  if (begin == 0 || begin >= end) return;  // they are hidden from us
  auto* const text = reinterpret_cast<char*>(begin);
  std::memset(text, 0, end - begin);
  std::memcpy(text, name.c_str(), std::min<std::size_t>(name.size(), end - begin - 1));
}

Result<std::thread> start_thread(const std::string& does, std::function<void()> body) {
  auto started = common::start_thread(does, std::move(body));
  if (!started) return fail(std::move(started.error()));
  return std::move(*started);
}

}  // namespace hvdrun
