// old_kernel [--filter | --strict-filter] COMMAND…
//
// Runs a program and its descendants without the system calls that Linux 4.18 (RHEL 8) lacks: those
// from number 424 on (pidfd_open(2), close_range(2), clone3(2)) fail with ENOSYS.
// --filter: they fail with EPERM, as under the seccomp filter of an old container runtime, except
// clone3(2), without which glibc starts no threads. --strict-filter: getrandom(2) fails too,
// without which OpenSSL does not work. Exits with 127 if it cannot install the filter or run the
// program.
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <iterator>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int, char** arguments) {
  const bool is_strict = std::strcmp(arguments[1], "--strict-filter") == 0;
  const bool is_filter = is_strict || std::strcmp(arguments[1], "--filter") == 0;
  if (is_filter) ++arguments;
  const unsigned refusal = SECCOMP_RET_ERRNO | (is_filter ? EPERM : ENOSYS);
  const unsigned filtered = is_strict ? SYS_getrandom : SYS_pidfd_open;
  // Numbers from 424 on are the same on all architectures.
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, SYS_pidfd_send_signal, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, filtered, 1, 2),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, refusal),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog whole{static_cast<unsigned short>(std::size(program)), program};
  if (::geteuid() != 0) ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &whole) == 0)
    ::execvp(arguments[1], arguments + 1);
  std::perror("old_kernel");
  return 127;
}
