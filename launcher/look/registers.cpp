#include "look/registers.hpp"

#include "look/system_calls.hpp"

#include <cerrno>
#include <cstddef>

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

namespace hvdrun {

namespace {

#if defined(__x86_64__)
constexpr std::size_t kStackNumber = 7;
constexpr std::size_t kInstructionNumber = 16;
constexpr std::size_t kRegisters = 17;
// The kernel's own code: begin again unless a handler runs (include/linux/errno.h).
constexpr long kRestartUnlessHandled = -514;

std::optional<user_regs_struct> read_all(pid_t tid) {
  user_regs_struct all{};
  iovec place{&all, sizeof all};
  // A thread of a 32-bit program has fewer.
  if (::ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &place) != 0 || place.iov_len != sizeof all)
    return std::nullopt;
  return all;
}
#elif defined(__aarch64__)
constexpr std::size_t kStackNumber = 31;
constexpr std::size_t kRegisters = 32;
#endif

}  // namespace

#if defined(__x86_64__)

std::optional<Registers> read_registers(pid_t tid) {
  const auto all = read_all(tid);
  if (!all) return std::nullopt;
  Registers registers;
  registers.values = {all->rax, all->rdx, all->rcx, all->rbx, all->rsi, all->rdi,
                      all->rbp, all->rsp, all->r8,  all->r9,  all->r10, all->r11,
                      all->r12, all->r13, all->r14, all->r15, all->rip};
  registers.at = all->rip;
  registers.stack = all->rsp;
  registers.thread = all->fs_base;
  return registers;
}

Registers registers_of_waiting(Address at, Address stack) {
  Registers registers;
  registers.values.assign(kRegisters, 0);
  registers.values[kStackNumber] = stack;
  registers.values[kInstructionNumber] = at;
  registers.at = at;
  registers.stack = stack;
  registers.complete = false;
  return registers;
}

bool can_resume_system_calls() {
  return true;
}

void resume_system_call(pid_t tid) {
  const auto all = read_all(tid);
  if (!all || static_cast<long>(all->orig_rax) < 0 || static_cast<long>(all->rax) != -EINTR) return;
  if (!ends_with_eintr(static_cast<long>(all->orig_rax))) return;
  ::ptrace(PTRACE_POKEUSER, tid, offsetof(user, regs.rax), kRestartUnlessHandled);
}

#elif defined(__aarch64__)

std::optional<Registers> read_registers(pid_t tid) {
  user_regs_struct all{};
  iovec place{&all, sizeof all};
  // A thread of a 32-bit program has fewer.
  if (::ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &place) != 0 || place.iov_len != sizeof all)
    return std::nullopt;
  Registers registers;
  registers.values.assign(all.regs, all.regs + kStackNumber);
  registers.values.push_back(all.sp);
  registers.at = all.pc;
  registers.stack = all.sp;
  iovec block{&registers.thread, sizeof registers.thread};
  ::ptrace(PTRACE_GETREGSET, tid, NT_ARM_TLS, &block);
  return registers;
}

Registers registers_of_waiting(Address at, Address stack) {
  Registers registers;
  registers.values.assign(kRegisters, 0);
  registers.values[kStackNumber] = stack;
  registers.at = at;
  registers.stack = stack;
  registers.complete = false;
  return registers;
}

bool can_resume_system_calls() {
  return false;
}

void resume_system_call(pid_t /*tid*/) {}

#else

std::optional<Registers> read_registers(pid_t /*tid*/) {
  return std::nullopt;
}

Registers registers_of_waiting(Address at, Address stack) {
  Registers registers;
  registers.at = at;
  registers.stack = stack;
  registers.complete = false;
  return registers;
}

bool can_resume_system_calls() {
  return false;
}

void resume_system_call(pid_t /*tid*/) {}

#endif

}  // namespace hvdrun
