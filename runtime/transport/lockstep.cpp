#include "transport/lockstep.hpp"

#include "base/clock.hpp"
#include "transport/futex.hpp"

#include <sched.h>

namespace libhvd {
namespace {

// A pause takes the processor up to 140 cycles, longer than a cache line needs from core to core.
constexpr int kEagerSpins = 50;
constexpr int kPauses = 100;
constexpr std::uint64_t kYieldNs = 1'000'000;
constexpr long kLookNs = 20'000'000;
constexpr std::uint64_t kIdleYieldNs = 50'000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Lockstep::Lockstep(std::shared_ptr<Segment> segment, int rank, int lane)
    : segment_(std::move(segment)),
      rank_(rank),
      size_(segment_->size()),
      first_block_(lane * size_) {}

std::optional<Failure> Lockstep::step() {
  if (failure_) return failure_;
  mine().brief = brief_;
  ++step_;
  segment_->publish(first_block_ + rank_, step_);
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    failure_ = wait_for(rank);
    if (failure_) return failure_;
  }
  if (step_ == 1) crowded_ = segment_->crowded();
  // A death that others have found concerns the next step, as all have published this one. But the
  // rank that a forked child speaks for lives and goes on publishing.
  if (segment_->failed()) {
    const auto known = segment_->failure();
    if (known && known->kind == FailureKind::forked) failure_ = known;
  }
  mine().used = {};
  return failure_;
}

// Step numbers wrap; no rank is ever more than one step away from another.
bool Lockstep::reached(int rank) const {
  const std::uint32_t arrived = block(rank).arrived.load(std::memory_order_acquire);
  return static_cast<std::int32_t>(arrived - step_) >= 0;
}

// The same as reached(), told by the line that is needed next.
bool Lockstep::published(int rank) const {
  return theirs(rank).step.load(std::memory_order_acquire) == step_;
}

std::optional<Failure> Lockstep::wait_for(int rank) {
  const int spins = kEagerSpins + (crowded_ ? 0 : kPauses);
  for (int spin = 0; spin < spins; ++spin) {
    if (published(rank)) return std::nullopt;
    if (spin >= kEagerSpins) relax();
  }
  const std::uint64_t start = monotonic_ns();
  std::optional<Failure> failure;
  while (!reached(rank)) {
    if (interrupted_.load(std::memory_order_seq_cst))
      return Failure{FailureKind::left, rank_, 0, "", {}};
    if (monotonic_ns() - start < kYieldNs) {
      ::sched_yield();
      continue;
    }
    sleep_on(rank);
    if (reached(rank)) break;
    failure = diagnose(rank);
    // What a peer published before it died or left still counts.
    if (failure && !reached(rank)) break;
    failure.reset();
  }
  waited_ns_ += monotonic_ns() - start;
  return failure;
}

bool Lockstep::anybody_ahead() const {
  for (int rank = 0; rank < size_; ++rank) {
    const std::uint32_t arrived = block(rank).arrived.load(std::memory_order_seq_cst);
    if (static_cast<std::int32_t>(arrived - step_) > 0) return true;
  }
  return false;
}

std::optional<Failure> Lockstep::wait_for_anybody(const std::function<bool()>& ready) {
  const auto over = [&] {
    return interrupted_.load(std::memory_order_seq_cst) || ready() || anybody_ahead();
  };
  const std::uint64_t start = monotonic_ns();
  while (!failure_ && !over()) {
    if (monotonic_ns() - start < kIdleYieldNs) {
      ::sched_yield();
      continue;
    }
    segment_->wait_idle(over, kLookNs);
    if (!over()) failure_ = find_missing();
  }
  return failure_;
}

// Of those that nobody is waiting for in a step.
std::optional<Failure> Lockstep::find_missing() {
  if (auto known = segment_->failure()) return known;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const auto& left = segment_->block(rank).left;
    const bool alive = segment_->alive(rank);  // asked first: who leaves says so before it ends
    if (left.load(std::memory_order_acquire) != 0) return record(FailureKind::left, rank);
    if (!alive) return record(FailureKind::died, rank);
  }
  return std::nullopt;
}

void Lockstep::sleep_on(int rank) {
  RankBlock& peer = block(rank);
  peer.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t arrived = peer.arrived.load(std::memory_order_seq_cst);
  if (static_cast<std::int32_t>(arrived - step_) < 0) futex_wait(peer.arrived, arrived, kLookNs);
  peer.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

// Why this step cannot end, if so: what another rank has found, else a missing peer that died,
// else one that left. Death comes first: ranks leave because another one died. Without the
// rank that runs the bridge the awaited one cannot come either, even when that rank itself has.
std::optional<Failure> Lockstep::diagnose(int awaited) {
  if (auto known = segment_->failure()) return known;
  const auto bridge = segment_->bridge();
  const auto missing = [&](int rank) { return !reached(rank == bridge ? awaited : rank); };
  std::optional<int> leaver;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_ || !missing(rank)) continue;
    const auto& left = segment_->block(rank).left;
    const bool alive = segment_->alive(rank);  // asked first: who leaves says so before it ends
    if (left.load(std::memory_order_acquire) != 0) {
      if (!leaver) leaver = rank;
    } else if (!alive && missing(rank)) {
      return record(FailureKind::died, rank);
    }
  }
  if (leaver && missing(*leaver)) return record(FailureKind::left, *leaver);
  return std::nullopt;
}

Failure Lockstep::record(FailureKind kind, int rank) {
  segment_->set_failure(kind, rank);
  return *segment_->failure();
}

void Lockstep::leave() {
  segment_->set_left(rank_);
}

void Lockstep::condemn(FailureKind kind) {
  segment_->set_failure(kind, rank_);
}

}  // namespace libhvd
