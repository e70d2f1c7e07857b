#include "checkpoint/save.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace libhvd::checkpoint {

Outcome Snapshot::take(std::span<const Item> items, std::span<const Part> parts,
                       std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t bytes = end - begin;
  if (bytes > memory_.size()) {
    memory_ = Mapping();  // first, so that there are never two
    void* const address =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED)
      return fail_errno("no memory for a copy of the state (" + std::to_string(bytes) + " bytes)",
                        errno);
    memory_ = Mapping(address, bytes);
    ::madvise(address, bytes, MADV_HUGEPAGE);  // a hint
  }
  std::uint64_t done = begin;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::uint64_t from = std::max(begin, parts[i].offset);
    const std::uint64_t to = std::min(end, parts[i].offset + parts[i].description.bytes);
    if (from >= to) continue;
    std::memset(memory_.data() + (done - begin), 0, from - done);  // what lies between parts
    std::memcpy(memory_.data() + (from - begin), items[i].data + (from - parts[i].offset),
                to - from);
    done = to;
  }
  if (done < end) std::memset(memory_.data() + (done - begin), 0, end - done);
  return Done{};
}

namespace {

// Low enough to give way to training, and still a tenth of a core that others keep busy: whoever
// waits for the writing should not wait for ever. It cannot be raised again when somebody does.
constexpr int kPriority = 10;

Outcome run(const std::function<Outcome()>& work) {
  // Linux gives each thread a nice value of its own.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kPriority);
  try {
    return work();
  } catch (const std::exception& exception) {
    return fail(HVD_ERROR_SYSTEM, std::string("a checkpoint was not written: ") + exception.what());
  }
}

}  // namespace

Outcome Background::start(std::function<Outcome()> work) {
  error_.reset();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the new thread
  Outcome outcome = Done{};
  try {
    thread_ = std::thread([this, work = std::move(work)] {
      if (Outcome done = run(work); !done.ok()) error_ = std::move(done.error());
    });
  } catch (const std::system_error& error) {
    outcome = fail_errno("cannot start a thread that writes the checkpoint", error.code().value());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return outcome;
}

Outcome Background::wait() {
  if (thread_.joinable()) thread_.join();
  if (auto error = std::exchange(error_, std::nullopt)) return std::move(*error);
  return Done{};
}

}  // namespace libhvd::checkpoint
