#include "transport/lockstep.hpp"

#include "base/clock.hpp"

#include <climits>
#include <ctime>

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace libhvd {
namespace {

constexpr int kSpins = 100;
constexpr std::uint64_t kYieldNs = 1'000'000;
constexpr long kLookNs = 20'000'000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Not the private kind of futex: the word is shared between processes.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  const timespec patience{0, kLookNs};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &patience, nullptr, 0);
}

void futex_wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Never 0, which stands for "no failure".
std::uint64_t pack(FailureKind kind, int rank) {
  return (static_cast<std::uint64_t>(kind) << 32) | static_cast<std::uint32_t>(rank);
}

}  // namespace

std::string describe_failure(const Failure& failure) {
  const std::string who = "rank " + std::to_string(failure.rank);
  const std::string pid = "pid " + std::to_string(failure.pid);
  switch (failure.kind) {
    case FailureKind::died:
      return who + " (" + pid + ") has died. See its own output for why";
    case FailureKind::left:
      return who + " (" + pid +
             ") has left: it called hvd_shutdown or exited while others still wait for it";
    case FailureKind::forked:
      return "a process forked by " + who + " (" + pid +
             ") has called a collective, which only the process that called hvd_init may do";
  }
  return who + " has failed";
}

Lockstep::Lockstep(std::shared_ptr<Segment> segment, int rank)
    : segment_(std::move(segment)), rank_(rank), size_(segment_->size()) {}

std::optional<Failure> Lockstep::step() {
  if (failure_) return failure_;
  ++step_;
  RankBlock& own = segment_->block(rank_);
  // Sequentially consistent with sleep_on: either the sleeper sees the step, or we see the sleeper.
  own.arrived.store(step_, std::memory_order_seq_cst);
  if (own.sleepers.load(std::memory_order_seq_cst) > 0) futex_wake_all(own.arrived);
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    failure_ = wait_for(rank);
    if (failure_) return failure_;
  }
  // A death that others have found concerns the next step, as all have published this one. But the
  // rank that a forked child speaks for lives and goes on publishing.
  const auto known = first_failure();
  if (known && known->kind == FailureKind::forked) failure_ = known;
  return failure_;
}

// Step numbers wrap; no rank is ever more than one step away from another.
bool Lockstep::reached(int rank) const {
  const std::uint32_t arrived = segment_->block(rank).arrived.load(std::memory_order_acquire);
  return static_cast<std::int32_t>(arrived - step_) >= 0;
}

std::optional<Failure> Lockstep::wait_for(int rank) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (reached(rank)) return std::nullopt;
    relax();
  }
  const std::uint64_t start = monotonic_ns();
  std::optional<Failure> failure;
  while (!reached(rank)) {
    if (monotonic_ns() - start < kYieldNs) {
      ::sched_yield();
      continue;
    }
    sleep_on(rank);
    if (reached(rank)) break;
    failure = diagnose();
    // What a peer published before it died or left still counts.
    if (failure && !reached(rank)) break;
    failure.reset();
  }
  waited_ns_ += monotonic_ns() - start;
  return failure;
}

void Lockstep::sleep_on(int rank) {
  RankBlock& peer = segment_->block(rank);
  peer.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t arrived = peer.arrived.load(std::memory_order_seq_cst);
  if (static_cast<std::int32_t>(arrived - step_) < 0) futex_wait(peer.arrived, arrived);
  peer.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

// Why this step cannot end, if so: what another rank has found, else a missing peer that died,
// else one that left. Death comes first: ranks leave because another one died.
std::optional<Failure> Lockstep::diagnose() {
  if (auto known = first_failure()) return known;
  std::optional<int> leaver;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_ || reached(rank)) continue;
    const auto& left = segment_->block(rank).left;
    const bool alive = segment_->alive(rank);  // asked first: who leaves says so before it ends
    if (left.load(std::memory_order_acquire) != 0) {
      if (!leaver) leaver = rank;
    } else if (!alive && !reached(rank)) {
      return record(FailureKind::died, rank);
    }
  }
  if (leaver && !reached(*leaver)) return record(FailureKind::left, *leaver);
  return std::nullopt;
}

std::optional<Failure> Lockstep::first_failure() const {
  const std::uint64_t word = segment_->header().failure.load(std::memory_order_acquire);
  if (word == 0) return std::nullopt;
  const int rank = static_cast<int>(word & 0xffffffffu);
  return Failure{static_cast<FailureKind>(word >> 32), rank,
                 segment_->block(rank).pid.load(std::memory_order_relaxed)};
}

// Writes the failure into the segment unless there is one; returns the one that stands there.
Failure Lockstep::record(FailureKind kind, int rank) {
  std::uint64_t none = 0;
  auto& word = segment_->header().failure;
  if (word.compare_exchange_strong(none, pack(kind, rank), std::memory_order_acq_rel)) wake_all();
  return *first_failure();
}

void Lockstep::leave() {
  RankBlock& own = segment_->block(rank_);
  own.left.store(1, std::memory_order_release);
  futex_wake_all(own.arrived);
}

void Lockstep::condemn(FailureKind kind) {
  record(kind, rank_);
}

void Lockstep::wake_all() {
  for (int rank = 0; rank < size_; ++rank) futex_wake_all(segment_->block(rank).arrived);
}

}  // namespace libhvd
