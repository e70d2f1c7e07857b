#include "output/user_terminal.hpp"

#include "base/open_descriptors.hpp"
#include "base/system.hpp"
#include "common/fd.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <new>
#include <string>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {

struct UserTerminal::Shared {
  // The launcher's main thread holds it. It is robust (pthread_mutexattr_setrobust(3)): when that
  // thread ends with it, the kernel gives it to the keeper. That is before the launcher's memory is
  // released, and long before its parent hears of the end and writes a prompt.
  pthread_mutex_t launcher_lives{};
  std::atomic<bool> raw{false};
  termios original{};
  termios in_raw{};  // as the kernel has taken it
  std::atomic<std::size_t> undo_size{0};
  std::array<char, 512> undo{};
};

namespace {

bool are_same(const termios& one, const termios& other) {
  return one.c_iflag == other.c_iflag && one.c_oflag == other.c_oflag &&
         one.c_cflag == other.c_cflag && one.c_lflag == other.c_lflag &&
         std::equal(std::begin(one.c_cc), std::end(one.c_cc), std::begin(other.c_cc));
}

// The flag O_NONBLOCK of stderr itself is shared with the shell. The terminal may be stopped
// (Ctrl-S), and the keeper must not wait there.
void write_now(int fd, std::string_view bytes) {
  const auto path = "/proc/self/fd/" + std::to_string(fd);
  const Fd fresh(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  [[maybe_unused]] const auto put = ::write(fresh ? fresh.get() : fd, bytes.data(), bytes.size());
}

}  // namespace

Result<std::unique_ptr<UserTerminal>> UserTerminal::open() {
  std::unique_ptr<UserTerminal> terminal(new UserTerminal);
  terminal->is_terminal_ = ::tcgetattr(STDIN_FILENO, &terminal->original_) == 0;
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return fail_errno("cannot share memory with a process", errno);
  terminal->shared_ = new (memory) Shared;
  pthread_mutexattr_t attributes;
  ::pthread_mutexattr_init(&attributes);
  ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  ::pthread_mutex_init(&terminal->shared_->launcher_lives, &attributes);
  ::pthread_mutexattr_destroy(&attributes);
  ::pthread_mutex_lock(&terminal->shared_->launcher_lives);
  terminal->keeper_ = ::fork();
  if (terminal->keeper_ < 0) return fail_errno("cannot start a process", errno);
  if (terminal->keeper_ == 0) terminal->keep();
  return terminal;
}

// In the keeper. It leads a session of its own, so that it gets no signal from the terminal, and
// may change the terminal's modes at any time.
void UserTerminal::keep() {
  set_process_name(kKeeperProcess);
  ::setsid();
  sigset_t everything;
  sigfillset(&everything);
  ::sigprocmask(SIG_SETMASK, &everything, nullptr);
  const int output = ::isatty(STDERR_FILENO) == 1 ? STDERR_FILENO : STDOUT_FILENO;
  // It must not keep a pipe of the caller's open.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::isatty(fd) != 1) ::close(fd);
  close_all_but({});
  if (::pthread_mutex_lock(&shared_->launcher_lives) != EOWNERDEAD) ::_exit(kExitOk);
  if (const std::size_t size = shared_->undo_size; size > 0)
    write_now(output, {shared_->undo.data(), size});
  // The shell may have set its own modes already, which are then to stay.
  termios now{};
  if (shared_->raw && ::tcgetattr(STDIN_FILENO, &now) == 0 && are_same(now, shared_->in_raw))
    ::tcsetattr(STDIN_FILENO, TCSANOW, &shared_->original);
  ::_exit(kExitOk);
}

UserTerminal::~UserTerminal() {
  if (shared_ == nullptr) return;
  restore();
  ::pthread_mutex_unlock(&shared_->launcher_lives);
  if (keeper_ > 0) {
    ::kill(keeper_, SIGCONT);  // it may have been stopped
    while (::waitpid(keeper_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ::munmap(shared_, sizeof(Shared));
}

bool UserTerminal::make_raw() {
  if (!is_terminal_ || !is_in_foreground(STDIN_FILENO)) return false;
  if (!raw_ && ::tcgetattr(STDIN_FILENO, &original_) != 0) return false;
  termios wanted = original_;
  ::cfmakeraw(&wanted);
  wanted.c_cc[VMIN] = 1;
  wanted.c_cc[VTIME] = 0;
  shared_->original = original_;
  shared_->in_raw = wanted;
  shared_->raw = true;
  if (::tcsetattr(STDIN_FILENO, TCSANOW, &wanted) != 0) {
    shared_->raw = false;
    return false;
  }
  ::tcgetattr(STDIN_FILENO, &shared_->in_raw);
  raw_ = true;
  return true;
}

// In the background the terminal is another program's, and has the modes that the shell has set.
void UserTerminal::restore() {
  if (!raw_) return;
  if (is_in_foreground(STDIN_FILENO)) ::tcsetattr(STDIN_FILENO, TCSANOW, &original_);
  raw_ = false;
  shared_->raw = false;
}

void UserTerminal::set_undo(std::string_view bytes) {
  shared_->undo_size = 0;
  const auto size = std::min(bytes.size(), shared_->undo.size());
  std::memcpy(shared_->undo.data(), bytes.data(), size);
  shared_->undo_size = size;
}

std::optional<TerminalSettings> UserTerminal::settings() const {
  auto settings = terminal_settings(STDIN_FILENO);
  if (settings && raw_) settings->modes = original_;
  return settings;
}

bool UserTerminal::has_gone() const {
  return is_terminal_ && !terminal_settings(STDIN_FILENO);
}

}  // namespace hvdrun
