#include "look/waiting.hpp"

#include "look/system_calls.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>

#include <fmt/format.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

namespace hvdrun {
namespace {

constexpr std::size_t kMostShown = 4;
constexpr std::size_t kMostPolled = 1024;
constexpr std::size_t kMostPath = 4096;
// glibc's mutex: the futex word, a count, then the thread that holds it.
constexpr Address kMutexOwner = 8;
constexpr std::uint32_t kMutexContended = 2;

class Wait {
 public:
  Wait(pid_t pid, const SystemCallState& call, const std::vector<pid_t>& threads,
       const Memory& memory, Descriptors& descriptors)
      : pid_(pid), call_(call), threads_(threads), memory_(memory), descriptors_(descriptors) {}

  std::string words() const {
    const bool faults = call_.number < 0 && call_.hangs && call_.awaits_page;
    if (faults) return "a page of a file or of swap";
    if (call_.number < 0) return {};
    const std::string name = system_call_name(call_.number);
    const auto is = [&name](std::initializer_list<std::string_view> names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (name == "futex") return futex();
    if (is({"read",      "readv",    "pread64",    "preadv",   "preadv2",  "write",
            "writev",    "pwrite64", "pwritev",    "pwritev2", "recvfrom", "recvmsg",
            "recvmmsg",  "sendto",   "sendmsg",    "sendmmsg", "accept",   "accept4",
            "ioctl",     "fsync",    "fdatasync",  "close",    "fstat",    "ftruncate",
            "fallocate", "lseek",    "getdents64", "splice",   "syncfs"}))
      return fd(0);
    if (name == "sendfile" || name == "copy_file_range") return fd(0) + "; " + fd(1);
    if (is({"flock", "fcntl"})) return lock();
    if (is({"wait4", "waitid"})) return child(name == "waitid");
    if (name == "nanosleep") return time(call_.arguments[0]);
    if (name == "clock_nanosleep") return clock();
    if (is({"poll", "ppoll"})) return poll(name == "ppoll");
    if (is({"select", "pselect6"})) return select(name == "pselect6");
    if (is({"epoll_wait", "epoll_pwait", "epoll_pwait2"})) return epoll(name == "epoll_pwait2");
    if (is({"open", "stat", "lstat", "access", "mkdir", "unlink", "rename", "statfs", "execve"}))
      return path(0);
    if (is({"openat", "newfstatat", "statx", "mkdirat", "unlinkat", "readlinkat", "renameat2"}))
      return path(1);
    if (name == "connect") return address();
    return {};
  }

 private:
  int int_argument(int index) const { return static_cast<int>(call_.arguments[index]); }

  std::string fd(int index) const {
    const int fd = int_argument(index);
    return of_file_system(descriptors_.file_system_of(fd), descriptors_.describe(fd));
  }

  // Returns "the file system (nfs4) of /data/a" for "/data/a (nfs4)" if the thread waits for that.
  std::string of_file_system(const std::string& type, std::string file) const {
    if (!call_.hangs || type.empty()) return file;
    const std::string shown = " (" + type + ")";
    if (file.ends_with(shown)) file.resize(file.size() - shown.size());
    return "the file system" + shown + " of " + file;
  }

  std::string futex() const {
    const Address at = call_.arguments[0];
    const int operation = int_argument(1) & FUTEX_CMD_MASK;
    std::string limit;
    if (call_.arguments[3] != 0 && operation != FUTEX_WAKE) limit = ", with a time limit";
    if (operation == FUTEX_LOCK_PI) {
      const auto word = memory_.get<std::uint32_t>(at).value_or(0);
      return fmt::format("a mutex that thread {} holds", word & FUTEX_TID_MASK) + limit;
    }
    const auto word = memory_.get<std::uint32_t>(at);
    const auto owner = memory_.get<std::int32_t>(at + kMutexOwner);
    const bool is_mutex = static_cast<std::uint32_t>(call_.arguments[2]) == kMutexContended;
    if (is_mutex && word == kMutexContended && owner &&
        std::find(threads_.begin(), threads_.end(), *owner) != threads_.end())
      return fmt::format("a mutex that thread {} holds", *owner) + limit;
    // pthread_join() waits until the kernel sets the thread's id to 0.
    if (word && *word == static_cast<std::uint32_t>(call_.arguments[2]) &&
        std::find(threads_.begin(), threads_.end(), static_cast<pid_t>(*word)) != threads_.end())
      return fmt::format("the end of thread {}", *word) + limit;
    return "another thread" + limit;
  }

  std::string lock() const {
    const pid_t holder = descriptors_.holder_of_lock();
    return fd(0) + (holder != 0 ? ", which " + pid_and_name(holder) + " has locked" : "");
  }

  std::string child(bool by_kind) const {
    const pid_t wanted = int_argument(by_kind ? 1 : 0);
    if (by_kind ? int_argument(0) == P_PID : wanted > 0) return "the child " + pid_and_name(wanted);
    const auto children = children_of(pid_);
    std::string names;
    for (std::size_t index = 0; index < children.size() && index < kMostShown; ++index)
      names += (index == 0 ? "" : ", ") + pid_and_name(children[index]);
    if (children.size() > kMostShown) names += ", …";
    return names.empty() ? "a child" : "one of its children: " + names;
  }

  std::string time(Address at) const {
    const auto span = memory_.get<timespec>(at);
    if (!span || span->tv_sec < 0) return {};
    return fmt::format(
        "{:g} s", static_cast<double>(span->tv_sec) + static_cast<double>(span->tv_nsec) / 1e9);
  }

  std::string clock() const {
    if ((int_argument(1) & TIMER_ABSTIME) == 0) return time(call_.arguments[2]);
    const auto end = memory_.get<timespec>(call_.arguments[2]);
    timespec now{};
    if (!end || ::clock_gettime(static_cast<clockid_t>(int_argument(0)), &now) != 0) return {};
    const double left = static_cast<double>(end->tv_sec - now.tv_sec) +
                        static_cast<double>(end->tv_nsec - now.tv_nsec) / 1e9;
    return fmt::format("{:.1f} s more", left);
  }

  std::string list(const std::vector<int>& fds, const std::string& limit) const {
    std::string words;
    for (std::size_t index = 0; index < fds.size() && index < kMostShown; ++index)
      words += (index == 0 ? "" : "; ") + descriptors_.describe(fds[index]);
    if (fds.size() > kMostShown) words += fmt::format("; {} more", fds.size() - kMostShown);
    return words + (words.empty() || limit.empty() ? "" : "; ") + limit;
  }

  static std::string until(double seconds) {
    return seconds < 0 ? "" : fmt::format("at most {:g} s", seconds);
  }

  std::string until_at(Address at) const {
    const std::string span = at == 0 ? "" : time(at);
    return span.empty() ? "" : "at most " + span;
  }

  std::string poll(bool has_span) const {
    const std::size_t count = std::min<std::size_t>(call_.arguments[1], kMostPolled);
    std::vector<pollfd> entries(count);
    if (count > 0 && !memory_.read(call_.arguments[0], entries.data(), count * sizeof(pollfd)))
      return {};
    std::vector<int> fds;
    for (const auto& entry : entries)
      if (entry.fd >= 0) fds.push_back(entry.fd);
    return list(fds, has_span ? until_at(call_.arguments[2]) : until(int_argument(2) / 1000.0));
  }

  std::string select(bool has_span) const {
    const int count = std::clamp(int_argument(0), 0, 1024);
    std::vector<int> fds;
    for (int set = 1; set <= 3; ++set) {
      std::array<unsigned long, 1024 / (8 * sizeof(unsigned long))> bits{};
      const Address at = call_.arguments[set];
      if (at == 0 || !memory_.read(at, bits.data(), sizeof bits)) continue;
      for (int fd = 0; fd < count; ++fd) {
        constexpr int kBits = 8 * sizeof(unsigned long);
        const bool has = (bits.at(static_cast<std::size_t>(fd / kBits)) >> (fd % kBits)) & 1U;
        if (has && std::find(fds.begin(), fds.end(), fd) == fds.end()) fds.push_back(fd);
      }
    }
    if (has_span) return list(fds, until_at(call_.arguments[4]));
    const auto span =
        call_.arguments[4] == 0 ? std::nullopt : memory_.get<timeval>(call_.arguments[4]);
    return list(fds, span ? until(static_cast<double>(span->tv_sec) +
                                  static_cast<double>(span->tv_usec) / 1e6)
                          : "");
  }

  std::string epoll(bool has_span) const {
    const auto watched = descriptors_.watched_by(int_argument(0));
    return list(watched, has_span ? until_at(call_.arguments[3]) : until(int_argument(3) / 1000.0));
  }

  std::string path(int index) const {
    const std::string text = memory_.text(call_.arguments[index], kMostPath);
    if (text.empty()) return {};
    return of_file_system(descriptors_.file_system_of(text), descriptors_.describe_path(text));
  }

  std::string address() const {
    const std::size_t size = std::min<std::size_t>(call_.arguments[2], sizeof(sockaddr_storage));
    std::string bytes(size, '\0');
    if (!memory_.read(call_.arguments[1], bytes.data(), size)) return fd(0);
    const std::string to = describe_address(bytes);
    return to.empty() ? fd(0) : "a connection to " + to;
  }

  pid_t pid_;
  const SystemCallState& call_;
  const std::vector<pid_t>& threads_;
  const Memory& memory_;
  Descriptors& descriptors_;
};

}  // namespace

std::string describe_wait(pid_t pid, const SystemCallState& call, const std::vector<pid_t>& threads,
                          const Memory& memory, Descriptors& descriptors) {
  if (call.running) return {};
  return Wait(pid, call, threads, memory, descriptors).words();
}

}  // namespace hvdrun
