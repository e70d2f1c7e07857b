// fault_injector [--counts FILE] [--fault ROLE:CALL:KIND:NUMBER:WHAT --log FILE] -- PROGRAM [WORD…]
//
// Runs a program and its descendants under a seccomp filter that sends the system calls below to
// this process (seccomp_unotify(2)). It numbers them and makes one of them fail. Exits with the
// program's code or signal.
//
// ROLE is launcher, agent, guard or rank, by the process's name (prctl(2), PR_SET_NAME); a rank
// names itself "hvd-rank". CALL is a group of system calls, see kCalls. KIND is the kind of the
// call's object: file, pipe, socket, event or other for a descriptor, with "+" if it is
// non-blocking; proc or file for open; memory or file for mmap; "-" for other calls. NUMBER is the
// call's index, from 1, among those of this role, group and kind. WHAT is an error such as ENOSPC,
// a delay in milliseconds, or SIGKILL, which ends the calling process.
//
// --counts: after the end of all processes, writes lines "ROLE CALL KIND COUNT". --log: gets a line
// when the fault happens. Calls of the dynamic loader never fail, because its messages are not
// hvdrun's.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

#ifdef __x86_64__
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#else
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif

enum class About { descriptor, path, mapping, nothing };

struct Call {
  const char* group;
  About about;
  std::vector<long> numbers;
};

// NOLINTNEXTLINE(cert-err58-cpp): a table
const std::vector<Call> kCalls{
    {"write", About::descriptor, {SYS_write, SYS_writev, SYS_pwrite64, SYS_sendmsg, SYS_sendto}},
    {"read", About::descriptor, {SYS_read, SYS_readv, SYS_pread64, SYS_recvmsg, SYS_recvfrom}},
    {"open", About::path, {SYS_openat}},
    {"mmap", About::mapping, {SYS_mmap}},
    {"allocate", About::descriptor, {SYS_fallocate}},
    {"truncate", About::descriptor, {SYS_ftruncate}},
    {"sync", About::descriptor, {SYS_fsync, SYS_fdatasync}},
    {"connect", About::descriptor, {SYS_connect}},
    {"accept", About::descriptor, {SYS_accept, SYS_accept4}},
    {"chdir", About::nothing, {SYS_chdir}},
    {"socket", About::nothing, {SYS_socket, SYS_socketpair}},
    {"pipe", About::nothing, {SYS_pipe2}},
    {"eventfd", About::nothing, {SYS_eventfd2}},
    {"signalfd", About::nothing, {SYS_signalfd4}},
    {"timerfd", About::nothing, {SYS_timerfd_create}},
    {"watch", About::nothing, {SYS_epoll_create1, SYS_epoll_ctl}},
    {"random", About::nothing, {SYS_getrandom}},
    {"pidfd", About::nothing, {SYS_pidfd_open}},
#ifdef __x86_64__
    {"directory", About::nothing, {SYS_mkdir, SYS_mkdirat}},
    {"duplicate", About::descriptor, {SYS_dup, SYS_dup2, SYS_dup3}},
    {"clone", About::nothing, {SYS_clone, SYS_clone3, SYS_fork, SYS_vfork}},
    {"rename", About::nothing, {SYS_rename, SYS_renameat, SYS_renameat2}},
    {"epoll", About::nothing, {SYS_epoll_wait, SYS_epoll_pwait}},
    {"poll", About::nothing, {SYS_poll, SYS_ppoll}},
#else
    {"directory", About::nothing, {SYS_mkdirat}},
    {"duplicate", About::descriptor, {SYS_dup, SYS_dup3}},
    {"clone", About::nothing, {SYS_clone, SYS_clone3}},
    {"rename", About::nothing, {SYS_renameat, SYS_renameat2}},
    {"epoll", About::nothing, {SYS_epoll_pwait}},
    {"poll", About::nothing, {SYS_ppoll}},
#endif
};

// NOLINTNEXTLINE(cert-err58-cpp): a table
const std::map<std::string, int> kErrors{
    {"EINTR", EINTR},   {"EAGAIN", EAGAIN}, {"ENOSPC", ENOSPC}, {"EMFILE", EMFILE},
    {"ENOMEM", ENOMEM}, {"EIO", EIO},       {"ENFILE", ENFILE}, {"ENOBUFS", ENOBUFS},
    {"EPERM", EPERM},   {"ENOSYS", ENOSYS}};

using Key = std::tuple<std::string, std::string, std::string>;  // role, call, kind

struct Fault {
  Key key;
  std::uint64_t number = 0;
  int error = 0;
  bool kills = false;
  milliseconds delay{0};
};

struct Arguments {
  std::optional<Fault> fault;
  std::string counts, log;
  char** command = nullptr;
};

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "fault_injector: %s: %s\n", what.c_str(), std::strerror(errno));
  std::_Exit(99);
}

Fault parse_fault(const std::string& text) {
  std::vector<std::string> words{""};
  for (const char letter : text)
    if (letter == ':')
      words.emplace_back();
    else
      words.back() += letter;
  errno = EINVAL;
  if (words.size() != 5) give_up(text);
  Fault fault{{words[0], words[1], words[2]}, std::stoull(words[3])};
  if (words[4] == "SIGKILL")
    fault.kills = true;
  else if (const auto error = kErrors.find(words[4]); error != kErrors.end())
    fault.error = error->second;
  else
    fault.delay = milliseconds(std::stoi(words[4]));
  return fault;
}

Arguments parse(char** words) {
  Arguments arguments;
  for (++words; *words != nullptr && std::string(*words) != "--"; words += 2) {
    const std::string name = *words;
    if (words[1] == nullptr) break;
    if (name == "--fault") arguments.fault = parse_fault(words[1]);
    if (name == "--counts") arguments.counts = words[1];
    if (name == "--log") arguments.log = words[1];
  }
  errno = EINVAL;
  if (*words == nullptr || words[1] == nullptr) give_up("no program");
  arguments.command = words + 1;
  return arguments;
}

// --- the filter, and the transfer of its descriptor to this process
// -------------------------------

int install_filter() {
  std::vector<long> numbers;
  for (const Call& call : kCalls)
    numbers.insert(numbers.end(), call.numbers.begin(), call.numbers.end());
  std::vector<sock_filter> program{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
  };
  for (std::size_t i = 0; i < numbers.size(); ++i)
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(numbers[i]),
                               static_cast<std::uint8_t>(numbers.size() - i), 0));
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
  const sock_fprog whole{static_cast<unsigned short>(program.size()), program.data()};
  // A filter needs this without CAP_SYS_ADMIN.
  if (::geteuid() != 0) ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return static_cast<int>(
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &whole));
}

// Takes the listener from the child by its number (pidfd_getfd(2)). The child cannot send it: its
// filter would make sendmsg(2) wait for this process.
int take_descriptor(pid_t child, int number) {
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  const int taken = static_cast<int>(::syscall(SYS_pidfd_getfd, process, number, 0));
  if (taken < 0) give_up("pidfd_getfd");
  ::close(process);
  return taken;
}

// --- role and kind of a call ---------------------------------------------------------------------

std::string read_link(const std::string& path) {
  std::array<char, 256> text{};
  const ssize_t length = ::readlink(path.c_str(), text.data(), text.size() - 1);
  return length < 0 ? "" : std::string(text.data(), static_cast<std::size_t>(length));
}

std::string role_of(pid_t thread) {
  std::ifstream file("/proc/" + std::to_string(thread) + "/comm");
  std::string name;
  std::getline(file, name);
  static const std::map<std::string, std::string> roles{{"hvdrun", "launcher"},
                                                        {"hvdrun-agent", "agent"},
                                                        {"hvd-guard", "guard"},
                                                        {"hvd-rank", "rank"}};
  const auto role = roles.find(name);
  return role == roles.end() ? "" : role->second;
}

bool blocks(const std::string& process, int descriptor) {
  std::ifstream file(process + "/fdinfo/" + std::to_string(descriptor));
  std::string word;
  while (file >> word)
    if (word == "flags:") {
      unsigned long flags = 0;
      file >> std::oct >> flags;
      return (flags & O_NONBLOCK) == 0;
    }
  return true;
}

std::string kind_of_descriptor(const std::string& process, int descriptor) {
  const std::string target = read_link(process + "/fd/" + std::to_string(descriptor));
  const auto is = [&](const char* begin) { return target.rfind(begin, 0) == 0; };
  std::string kind = is("pipe:")                   ? "pipe"
                     : is("socket:")               ? "socket"
                     : is("anon_inode:[eventfd")   ? "event"
                     : is("/proc/") || is("/sys/") ? "proc"
                     : is("/") && !is("/dev/")     ? "file"
                     : is("/dev/shm/")             ? "file"
                                                   : "other";
  if (!blocks(process, descriptor)) kind += "+";
  return kind;
}

std::string kind_of_path(pid_t thread, std::uint64_t address) {
  std::array<char, 6> begin{};
  std::ifstream memory("/proc/" + std::to_string(thread) + "/mem", std::ios::binary);
  memory.seekg(static_cast<std::streamoff>(address));
  memory.read(begin.data(), begin.size() - 1);
  const std::string text = begin.data();
  return text == "/proc" || text.rfind("/sys/", 0) == 0 ? "proc" : "file";
}

class Loader {
 public:
  // Returns whether the address is in the dynamic loader's code.
  bool has(pid_t thread, const std::string& role, std::uint64_t address) {
    auto& range = ranges_[{thread, role}];
    if (range.second == 0) range = find(thread);
    return range.first <= address && address < range.second;
  }

 private:
  static std::pair<std::uint64_t, std::uint64_t> find(pid_t thread) {
    std::ifstream file("/proc/" + std::to_string(thread) + "/maps");
    std::pair<std::uint64_t, std::uint64_t> range{0, 1};
    for (std::string line; std::getline(file, line);) {
      if (line.find("/ld-linux") == std::string::npos || line.find(" r-xp ") == std::string::npos)
        continue;
      range.first = std::stoull(line, nullptr, 16);
      range.second = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    }
    return range;
  }

  std::map<std::pair<pid_t, std::string>, std::pair<std::uint64_t, std::uint64_t>> ranges_;
};

// --- answering calls -----------------------------------------------------------------------------

class Supervisor {
 public:
  Supervisor(int listener, const Arguments& arguments)
      : listener_(listener), arguments_(arguments) {}

  // Answers calls until no process has the filter any more. Writes the status of `child`, the
  // program, to `report`.
  void run(pid_t child, int report) {
    const int alive = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
    std::array<pollfd, 2> waiting{pollfd{listener_, POLLIN, 0}, pollfd{alive, POLLIN, 0}};
    while (waiting[0].fd != -1 || waiting[1].fd != -1) {
      ::poll(waiting.data(), waiting.size(), time_left());
      answer_late();
      if ((waiting[1].revents & POLLIN) != 0) {
        int status = 0;
        ::waitpid(child, &status, 0);
        [[maybe_unused]] const auto written = ::write(report, &status, sizeof status);
        waiting[1].fd = -1;
      }
      if ((waiting[0].revents & POLLIN) != 0) serve();
      if ((waiting[0].revents & POLLHUP) != 0) waiting[0].fd = -1;
    }
    write_counts();
  }

 private:
  int time_left() const {
    if (late_.empty()) return -1;
    const auto left =
        std::chrono::duration_cast<milliseconds>(late_.begin()->first - Clock::now()).count();
    return static_cast<int>(std::max<long>(left + 1, 0));
  }

  void answer_late() {
    while (!late_.empty() && late_.begin()->first <= Clock::now()) {
      answer(late_.begin()->second, 0);
      late_.erase(late_.begin());
    }
  }

  void answer(std::uint64_t id, int error) const {
    seccomp_notif_resp response{};
    response.id = id;
    response.error = -error;
    if (error == 0) response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    ::ioctl(listener_, SECCOMP_IOCTL_NOTIF_SEND, &response);  // fails if the caller was killed
  }

  void serve() {
    seccomp_notif call{};
    if (::ioctl(listener_, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) return;  // the caller was killed
    const auto key = key_of(call);
    if (!key) return answer(call.id, 0);
    const std::uint64_t number = ++counts_[*key];
    const auto& fault = arguments_.fault;
    if (!fault || fault->key != *key || fault->number != number) return answer(call.id, 0);
    std::ofstream(arguments_.log, std::ios::app)
        << "system call " << call.data.nr << " of process " << call.pid << std::endl;
    if (fault->kills) {
      ::kill(static_cast<pid_t>(call.pid), SIGKILL);  // a thread's number is good, too
      return;
    }
    if (fault->error != 0) return answer(call.id, fault->error);
    late_.emplace(Clock::now() + fault->delay, call.id);
  }

  std::optional<Key> key_of(const seccomp_notif& call) {
    const auto thread = static_cast<pid_t>(call.pid);
    const std::string role = role_of(thread);
    if (role.empty()) return {};
    const auto kind = std::find_if(kCalls.begin(), kCalls.end(), [&](const Call& one) {
      return std::find(one.numbers.begin(), one.numbers.end(), call.data.nr) != one.numbers.end();
    });
    if (kind->about != About::nothing && loader_.has(thread, role, call.data.instruction_pointer))
      return {};
    const std::string process = "/proc/" + std::to_string(thread);
    switch (kind->about) {
      case About::descriptor:
        return Key{role, kind->group,
                   kind_of_descriptor(process, static_cast<int>(call.data.args[0]))};
      case About::path:
        return Key{role, kind->group, kind_of_path(thread, call.data.args[1])};
      case About::mapping:
        return Key{role, kind->group, (call.data.args[3] & MAP_ANONYMOUS) != 0 ? "memory" : "file"};
      case About::nothing:
        break;
    }
    return Key{role, kind->group, "-"};
  }

  void write_counts() const {
    if (arguments_.counts.empty()) return;
    std::ofstream file(arguments_.counts + ".new");
    for (const auto& [key, count] : counts_)
      file << std::get<0>(key) << ' ' << std::get<1>(key) << ' ' << std::get<2>(key) << ' ' << count
           << '\n';
    file.close();
    std::rename((arguments_.counts + ".new").c_str(), arguments_.counts.c_str());
  }

  int listener_;
  const Arguments& arguments_;
  Loader loader_;
  std::map<Key, std::uint64_t> counts_;
  std::multimap<Clock::time_point, std::uint64_t> late_;  // delayed answers by their time
};

// Clears this process's environment: tests find the job's processes by a variable in it.
void clear_environment() {
  for (char** entry = environ; *entry != nullptr; ++entry)
    std::memset(*entry, 0, std::strlen(*entry));
}

[[noreturn]] void supervise(const Arguments& arguments, int report) {
  // Shared memory in which the child writes its number of the listener.
  auto* const listener = static_cast<volatile int*>(
      ::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  *listener = 0;
  const pid_t child = ::fork();
  if (child < 0) give_up("fork");
  if (child == 0) {
    ::close(report);
    const int number = install_filter();
    *listener = number < 0 ? -errno : number;
    while (number >= 0 && *listener != 0)
      ::usleep(100);  // until the parent has taken it: exec closes it
    if (number >= 0) ::execvp(arguments.command[0], arguments.command);
    std::_Exit(127);
  }
  while (*listener == 0) ::usleep(100);
  errno = -*listener;
  if (*listener < 0) give_up("seccomp");
  const int taken = take_descriptor(child, *listener);
  *listener = 0;
  clear_environment();
  Supervisor(taken, arguments).run(child, report);
  std::_Exit(0);
}

}  // namespace

int main(int, char** words) {
  const Arguments arguments = parse(words);
  std::array<int, 2> report{};
  if (::pipe2(report.data(), O_CLOEXEC) != 0) give_up("pipe");
  const pid_t supervisor = ::fork();
  if (supervisor < 0) give_up("fork");
  if (supervisor == 0) supervise(arguments, report[1]);
  ::close(report[1]);
  int status = 0;
  if (::read(report[0], &status, sizeof status) != sizeof status) return 99;
  // Processes that are left keep running under the filter. Counts are complete only after the last.
  if (!arguments.counts.empty()) ::waitpid(supervisor, nullptr, 0);
  if (WIFSIGNALED(status)) {
    ::signal(WTERMSIG(status), SIG_DFL);
    ::raise(WTERMSIG(status));
  }
  return WEXITSTATUS(status);
}
