#include "look/nccl_ras.hpp"

#include "common/net/address.hpp"
#include "common/net/lookup.hpp"
#include "common/net/tcp.hpp"
#include "common/write_all.hpp"
#include "look/nccl_answer.hpp"
#include "look/proc_files.hpp"
#include "look/programs_of.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using common::Fd;
using Clock = NcclQuestion::Clock;

constexpr std::size_t kLongestAnswer = 16u << 20;
constexpr std::size_t kLongestLine = 256;
// The server's socket is shared by all processes of a user, also of other jobs.
constexpr int kMostTries = 8;
// A server that does not answer may be stopped; another one may not be.
constexpr std::chrono::milliseconds kLongestGreeting{300};
constexpr std::chrono::milliseconds kReading{100};

int left(Clock::time_point deadline) {
  const auto time =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::max<long>(0, time));
}

bool await(int fd, short events, Clock::time_point deadline) {
  pollfd entry{fd, events, 0};
  return ::poll(&entry, 1, left(deadline)) > 0;
}

// Reads one line, byte by byte; what follows is for others. "": none has come.
std::string read_line(int fd, Clock::time_point deadline) {
  std::string line;
  while (line.size() < kLongestLine && await(fd, POLLIN, deadline)) {
    char byte = 0;
    if (::recv(fd, &byte, 1, 0) != 1) return {};
    if (byte == '\n') return line;
    line += byte;
  }
  return {};
}

// Reads up to the end. nullopt: it did not come in time, or is too far.
std::optional<std::string> read_all(int fd, Clock::time_point deadline) {
  std::string text;
  std::array<char, 65536> part{};
  while (text.size() < kLongestAnswer && await(fd, POLLIN, deadline)) {
    const ssize_t got = ::recv(fd, part.data(), part.size(), 0);
    if (got < 0) return std::nullopt;
    if (got == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  return std::nullopt;
}

bool send_line(int fd, std::string_view line) {
  return ::send(fd, line.data(), line.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(line.size());
}

// Returns the name "socket:[4711]" of the other end of a connection within this host; "": unknown.
std::string name_of_other_end(int fd) {
  const auto here = common::local_address(fd);
  const auto there = common::peer_address(fd);
  if (!here || !there) return {};
  const auto port = [](const std::string& address) {
    const auto colon = address.rfind(':');
    int number = 0;
    if (colon != std::string::npos)
      std::from_chars(address.data() + colon + 1, address.data() + address.size(), number, 16);
    return number;
  };
  for (const auto* file : {"net/tcp", "net/tcp6"}) {
    std::istringstream lines(read_proc(::getpid(), file));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string skipped;
      std::string local;
      std::string remote;
      std::string inode;
      words >> skipped >> local >> remote;
      if (port(local) != there->port() || port(remote) != here->port()) continue;
      for (int field = 3; field < 10; ++field) words >> inode;
      if (words) return "socket:[" + inode + "]";
    }
  }
  return {};
}

bool has_open(pid_t pid, const std::string& name) {
  std::error_code error;
  const auto folder = "/proc/" + std::to_string(pid) + "/fd";
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error))
    if (std::filesystem::read_symlink(at->path(), error) == name) return true;
  return false;
}

Fd connect_to(const common::Address& address, Clock::time_point deadline) {
  auto socket = common::make_tcp_socket(address);
  if (!socket || common::connect_tcp(socket->get(), address) != 0) return {};
  if (!await(socket->get(), POLLOUT, deadline)) return {};
  return common::connect_error(socket->get()) == 0 ? std::move(*socket) : Fd();
}

// Returns the addresses of "localhost:28028", "[::1]:28028"; none if the text is no such.
std::vector<common::Address> addresses_of(const std::string& text, Clock::time_point deadline) {
  const auto colon = text.rfind(':');
  std::uint16_t port = 0;
  if (colon == std::string::npos ||
      std::from_chars(text.data() + colon + 1, text.data() + text.size(), port).ec != std::errc{})
    return {};
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  auto addresses = common::Lookup({host}).next(std::chrono::milliseconds(left(deadline)));
  for (auto& address : addresses) address = address.with_port(port);
  return addresses;
}

// Returns a connection to a process of the job that speaks RAS's protocol; none if there is none.
Fd connect_to_rank(const std::string& address, const std::vector<pid_t>& programs,
                   Clock::time_point deadline) {
  for (const auto& where : addresses_of(address, deadline))
    for (int tries = 0; tries < kMostTries && left(deadline) > 0; ++tries) {
      Fd fd = connect_to(where, deadline);
      if (!fd) break;
      const auto soon = std::min(deadline, Clock::now() + kLongestGreeting);
      if (!send_line(fd.get(), "CLIENT PROTOCOL 2\n")) continue;
      if (!read_line(fd.get(), soon).starts_with("SERVER PROTOCOL ")) continue;
      const auto name = name_of_other_end(fd.get());
      if (!name.empty() &&
          std::ranges::any_of(programs, [&](pid_t pid) { return has_open(pid, name); }))
        return fd;
    }
  return {};
}

// Returns whether the process may have NCCL: as a library, or within PyTorch's.
bool has_nccl(pid_t pid) {
  return std::ranges::any_of(read_maps(pid), [](const Mapping& mapping) {
    const auto name = std::filesystem::path(mapping.path).filename().string();
    return name.find("nccl") != std::string::npos || name.starts_with("libtorch_cuda");
  });
}

// What was the same in both answers: in a job that runs, the calls differ for a moment.
std::vector<NcclCommunicator> what_stays(const std::vector<NcclCommunicator>& before,
                                         const std::vector<NcclCommunicator>& after) {
  std::vector<NcclCommunicator> same;
  std::ranges::copy_if(after, std::back_inserter(same), [&](const NcclCommunicator& one) {
    return std::ranges::find(before, one) != before.end();
  });
  return same;
}

[[noreturn]] void ask_twice(const std::vector<pid_t>& pids, std::chrono::milliseconds interval,
                            Clock::time_point deadline, int out, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  std::vector<pid_t> programs;
  for (const pid_t pid : pids)
    for (const pid_t program : programs_of(pid)) programs.push_back(program);
  const auto asked = std::ranges::find_if(programs, has_nccl);
  if (asked == programs.end()) ::_exit(0);
  const auto address = nccl_address(read_proc(*asked, "environ"));
  const auto before = ask_nccl(address, programs, deadline);
  if (!before) ::_exit(0);
  std::this_thread::sleep_for(interval);
  const auto after = ask_nccl(address, programs, deadline);
  if (!after) ::_exit(0);
  common::write_all(out, nccl_json(what_stays(*before, *after)) + "\n");
  ::_exit(0);
}

}  // namespace

std::string nccl_address(const std::string& environment) {
  std::string address = "localhost:28028";
  std::istringstream variables(environment);
  for (std::string variable; std::getline(variables, variable, '\0');) {
    if (variable == "NCCL_RAS_ENABLE=0") return {};
    constexpr std::string_view kAddress = "NCCL_RAS_ADDR=";
    if (variable.starts_with(kAddress)) address = variable.substr(kAddress.size());
  }
  return address;
}

std::optional<std::vector<NcclCommunicator>> ask_nccl(const std::string& address,
                                                      const std::vector<pid_t>& programs,
                                                      Clock::time_point deadline) {
  const Fd fd = connect_to_rank(address, programs, deadline);
  // The server waits so many seconds for the others. Its answer is awaited: if the client closes
  // the connection before, the server's thread uses a processor until it has the answer.
  if (!fd || !send_line(fd.get(), "TIMEOUT 1\n") || read_line(fd.get(), deadline) != "OK")
    return std::nullopt;
  // A version without JSON answers with an error, and then with text.
  if (!send_line(fd.get(), "SET FORMAT json\n") || read_line(fd.get(), deadline).empty())
    return std::nullopt;
  if (!send_line(fd.get(), "VERBOSE STATUS\n")) return std::nullopt;
  const auto answer = read_all(fd.get(), deadline);
  return answer ? parse_nccl_answer(*answer) : std::nullopt;
}

NcclQuestion::NcclQuestion(const std::vector<pid_t>& pids, std::chrono::milliseconds interval,
                           std::chrono::milliseconds limit)
    : deadline_(Clock::now() + limit) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
  out_.reset(ends[0]);
  const Fd in(ends[1]);
  const pid_t parent = ::getpid();
  child_ = ::fork();
  if (child_ == 0) ask_twice(pids, interval, deadline_, in.get(), parent);
}

NcclQuestion::~NcclQuestion() {
  if (child_ <= 0) return;
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, WNOHANG);
}

std::string NcclQuestion::wait() {
  if (child_ <= 0) return {};
  // If the looks took longer, reads an answer that has come meanwhile.
  const auto deadline = std::max(deadline_, Clock::now() + kReading);
  std::string line;
  std::array<char, 65536> part{};
  while (line.size() < kLongestAnswer && await(out_.get(), POLLIN, deadline)) {
    const ssize_t got = ::read(out_.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return line.ends_with('\n') ? line : std::string();
    line.append(part.data(), static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace hvdrun
