#include "agent/folder_removals.hpp"

#include <csignal>
#include <utility>

#include <fcntl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace hvdrun {
namespace {

Fd make_signalfd(int signal) {
  block_signals({signal});
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

}  // namespace

// Guard, agent and PipeWrites use the numbers below it.
int FolderRemovals::signal() {
  return SIGRTMIN + 5;
}

FolderRemovals::FolderRemovals(const EventLoop& loop, std::function<void()> callback)
    : callback_(std::move(callback)),
      signals_(make_signalfd(signal())),
      event_(loop, signals_.get(), FdEvent::readable, [this] { on_signal(); }) {
  event_.enable();
}

// F_NOTIFY makes the process the owner, so the thread is set after it.
void FolderRemovals::watch(int folder) {
  if (::fcntl(folder, F_SETSIG, signal()) != 0) return;
  if (::fcntl(folder, F_NOTIFY, DN_DELETE | DN_RENAME | DN_MULTISHOT) != 0) return;
  const f_owner_ex owner{F_OWNER_TID, static_cast<pid_t>(::syscall(SYS_gettid))};
  ::fcntl(folder, F_SETOWN_EX, &owner);
}

void FolderRemovals::on_signal() {
  signalfd_siginfo info;  // NOLINT: filled by read(2)
  bool came = false;
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) came = true;
  if (came) callback_();
}

}  // namespace hvdrun
