#include "agent/folder_removals.hpp"

#include <csignal>
#include <utility>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace hvdrun {

// Guard, agent and PipeWrites use the numbers below it.
int FolderRemovals::signal() {
  return SIGRTMIN + 5;
}

FolderRemovals::FolderRemovals(const EventLoop& loop, std::function<void()> callback)
    : signals_((block_signals({signal()}), loop), {signal()},
               [callback = std::move(callback)](int) { callback(); }) {}

// F_NOTIFY makes the process the owner, so the thread is set after it.
void FolderRemovals::watch(int folder) {
  if (::fcntl(folder, F_SETSIG, signal()) != 0) return;
  if (::fcntl(folder, F_NOTIFY, DN_DELETE | DN_RENAME | DN_MULTISHOT) != 0) return;
  const f_owner_ex owner{F_OWNER_TID, static_cast<pid_t>(::syscall(SYS_gettid))};
  ::fcntl(folder, F_SETOWN_EX, &owner);
}

}  // namespace hvdrun
