#include "look/system_calls.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <sys/socket.h>
#include <sys/syscall.h>

namespace hvdrun {
namespace {

#define HVD_NAMED(name) std::pair<long, std::string_view>(SYS_##name, #name)

// Some are missing on some processors.
constexpr auto kNames = std::to_array<std::pair<long, std::string_view>>({
    HVD_NAMED(accept),
    HVD_NAMED(accept4),
    HVD_NAMED(clock_nanosleep),
    HVD_NAMED(clone),
    HVD_NAMED(close),
    HVD_NAMED(connect),
    HVD_NAMED(copy_file_range),
    HVD_NAMED(epoll_pwait),
    HVD_NAMED(execve),
    HVD_NAMED(exit_group),
    HVD_NAMED(fallocate),
    HVD_NAMED(fcntl),
    HVD_NAMED(fdatasync),
    HVD_NAMED(flock),
    HVD_NAMED(fstat),
    HVD_NAMED(fsync),
    HVD_NAMED(ftruncate),
    HVD_NAMED(futex),
    HVD_NAMED(getdents64),
    HVD_NAMED(io_getevents),
    HVD_NAMED(ioctl),
    HVD_NAMED(lseek),
    HVD_NAMED(madvise),
    HVD_NAMED(mkdirat),
    HVD_NAMED(mmap),
    HVD_NAMED(mprotect),
    HVD_NAMED(msgrcv),
    HVD_NAMED(msgsnd),
    HVD_NAMED(msync),
    HVD_NAMED(munmap),
    HVD_NAMED(nanosleep),
    HVD_NAMED(newfstatat),
    HVD_NAMED(openat),
    HVD_NAMED(ppoll),
    HVD_NAMED(pread64),
    HVD_NAMED(preadv),
    HVD_NAMED(preadv2),
    HVD_NAMED(pselect6),
    HVD_NAMED(pwrite64),
    HVD_NAMED(pwritev),
    HVD_NAMED(pwritev2),
    HVD_NAMED(read),
    HVD_NAMED(readlinkat),
    HVD_NAMED(readv),
    HVD_NAMED(recvfrom),
    HVD_NAMED(recvmmsg),
    HVD_NAMED(recvmsg),
    HVD_NAMED(renameat2),
    HVD_NAMED(restart_syscall),
    HVD_NAMED(rt_sigsuspend),
    HVD_NAMED(rt_sigtimedwait),
    HVD_NAMED(sched_yield),
    HVD_NAMED(semop),
    HVD_NAMED(semtimedop),
    HVD_NAMED(sendfile),
    HVD_NAMED(sendmmsg),
    HVD_NAMED(sendmsg),
    HVD_NAMED(sendto),
    HVD_NAMED(splice),
    HVD_NAMED(statfs),
    HVD_NAMED(statx),
    HVD_NAMED(sync),
    HVD_NAMED(syncfs),
    HVD_NAMED(unlinkat),
    HVD_NAMED(wait4),
    HVD_NAMED(waitid),
    HVD_NAMED(write),
    HVD_NAMED(writev),
#ifdef SYS_epoll_pwait2
    HVD_NAMED(epoll_pwait2),
#endif
#ifdef SYS_futex_waitv
    HVD_NAMED(futex_waitv),
#endif
#ifdef SYS_io_uring_enter
    HVD_NAMED(io_uring_enter),
#endif
#ifdef SYS_access
    HVD_NAMED(access),
#endif
#ifdef SYS_epoll_wait
    HVD_NAMED(epoll_wait),
#endif
#ifdef SYS_lstat
    HVD_NAMED(lstat),
#endif
#ifdef SYS_mkdir
    HVD_NAMED(mkdir),
#endif
#ifdef SYS_open
    HVD_NAMED(open),
#endif
#ifdef SYS_pause
    HVD_NAMED(pause),
#endif
#ifdef SYS_poll
    HVD_NAMED(poll),
#endif
#ifdef SYS_rename
    HVD_NAMED(rename),
#endif
#ifdef SYS_select
    HVD_NAMED(select),
#endif
#ifdef SYS_stat
    HVD_NAMED(stat),
#endif
#ifdef SYS_unlink
    HVD_NAMED(unlink),
#endif
#ifdef SYS_vfork
    HVD_NAMED(vfork),
#endif
});

#undef HVD_NAMED

// Beside those that always do, the calls on a socket with a time limit (SO_RCVTIMEO, SO_SNDTIMEO).
constexpr std::array<std::string_view, 16> kEndWithEintr{
    "accept",       "accept4",         "connect", "epoll_pwait", "epoll_pwait2", "epoll_wait",
    "io_getevents", "io_uring_enter",  "read",    "readv",       "recvfrom",     "recvmmsg",
    "recvmsg",      "rt_sigtimedwait", "semop",   "semtimedop"};

constexpr std::array<std::string_view, 12> kMayMoveLess{
    "copy_file_range", "pwrite64", "pwritev", "pwritev2", "sendfile", "sendmmsg",
    "sendmsg",         "sendto",   "splice",  "write",    "writev",   "execve"};

template <std::size_t size>
bool is_one_of(long number, const std::array<std::string_view, size>& names) {
  return std::find(names.begin(), names.end(), system_call_name(number)) != names.end();
}

}  // namespace

std::string system_call_name(long number) {
  for (const auto& [known, name] : kNames)
    if (known == number) return std::string(name);
  return "system call " + std::to_string(number);
}

long resumed_call(long number, std::string_view wait_channel) {
  if (number != SYS_restart_syscall) return number;
  if (wait_channel.find("nanosleep") != std::string_view::npos) return SYS_clock_nanosleep;
  if (wait_channel.find("futex") != std::string_view::npos) return SYS_futex;
#ifdef SYS_poll
  if (wait_channel.find("poll") != std::string_view::npos) return SYS_poll;
#endif
  return number;
}

bool is_restarted(std::string_view name) {
  return name == "clock_nanosleep" || name == "nanosleep" || name == "poll" || name == "futex";
}

bool ends_with_eintr(long number) {
  return is_one_of(number, kEndWithEintr);
}

bool may_move_less(long number, const std::uint64_t* arguments) {
  const bool waits_for_all = (number == SYS_recvfrom && (arguments[3] & MSG_WAITALL) != 0) ||
                             (number == SYS_recvmsg && (arguments[2] & MSG_WAITALL) != 0) ||
                             number == SYS_recvmmsg;
  return waits_for_all || is_one_of(number, kMayMoveLess);
}

bool awaits_fuse(std::string_view wait_channel) {
  return wait_channel == "request_wait_answer";
}

bool awaits_page(std::string_view wait_channel) {
  // Until Linux 5.15 wait_on_page_bit_common and __lock_page, then those of a folio.
  return wait_channel.find("folio") != wait_channel.npos ||
         wait_channel.find("page") != wait_channel.npos;
}

}  // namespace hvdrun
