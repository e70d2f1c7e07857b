#include "transport/step_barrier.hpp"

#include "common/clock.hpp"
#include "transport/doorbell.hpp"

#include <algorithm>

#include <sched.h>

namespace libhvd {
namespace {

// A pause takes the processor up to 140 cycles, longer than a cache line needs from core to core.
constexpr int kEagerSpins = 50;
constexpr int kPauses = 100;
constexpr std::uint64_t kYieldNs = 1'000'000;
constexpr std::uint64_t kLookNs = 20'000'000;
// More would keep the processor busy with looking.
constexpr int kLookersPerProcessor = 8;
constexpr std::uint64_t kIdleYieldNs = 50'000;
// Of more ranks each look is at some, in turn. What a look takes grows with the ranks, and so does
// the number of those that look: thousands would do little else. All of them together see
// everybody.
constexpr int kFewRanks = 64;
constexpr int kSharesOfMany = 32;  // one is looked at each time
// Word of why a connection has ended is on its way, by the bridges.
constexpr std::uint64_t kJudgeNs = 200'000'000;
// So long this rank waits for its bridge to tell of a failure: a host may take nothing.
constexpr std::uint64_t kTellNs = 200'000'000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

bool lives_on(FailureKind kind) {
  return kind == FailureKind::forked || kind == FailureKind::device ||
         kind == FailureKind::broken || kind == FailureKind::stalled;
}

}  // namespace

StepBarrier::StepBarrier(std::shared_ptr<Segment> segment, int rank, int lane)
    : segment_(std::move(segment)),
      rank_(rank),
      size_(segment_->size()),
      lane_(lane),
      first_block_(lane * size_),
      next_look_(rank) {
  learn_processors();
}

void StepBarrier::learn_processors() {
  const int sharing = segment_->ranks_per_processor();
  crowded_ = step_ == 0 || sharing > 1;
  look_ns_ = kLookNs * static_cast<std::uint64_t>(std::max(1, sharing / kLookersPerProcessor));
}

std::optional<Failure> StepBarrier::step() {
  if (failure_) return failure_;
  mine().header = header_;
  ++step_;
  segment_->publish(first_block_ + rank_, step_);
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    failure_ = passed_on(wait_for(rank, Among::all));
    if (failure_) return failure_;
  }
  if (step_ == 1) learn_processors();
  // A death that others have found concerns the next step, as all have published this one. But the
  // rank that a forked child speaks for, whose device has failed, or which is late, lives and goes
  // on publishing.
  if (segment_->failed()) {
    const auto known = segment_->failure();
    if (known && lives_on(known->kind)) failure_ = passed_on(known);
  }
  mine().used = {};
  return failure_;
}

std::optional<Failure> StepBarrier::step_on_host() {
  if (failure_) return failure_;
  if (locals_.empty()) locals_ = segment_->ranks_on(static_cast<int>(segment_->header().host));
  ++step_on_host_;
  segment_->publish_on_host(first_block_ + rank_, step_on_host_);
  for (const int rank : locals_) {
    if (rank == rank_) continue;
    failure_ = passed_on(wait_for(rank, Among::host));
    if (failure_) return failure_;
  }
  return failure_;
}

std::atomic<std::uint32_t>& StepBarrier::arrived(int rank, Among among) const {
  return among == Among::all ? block(rank).arrived : block(rank).arrived_on_host;
}

std::atomic<std::uint32_t>& StepBarrier::sleepers(int rank, Among among) const {
  return among == Among::all ? block(rank).sleepers : block(rank).sleepers_on_host;
}

// Step numbers wrap; no rank is ever more than one step away from another.
bool StepBarrier::reached(int rank, Among among) const {
  const std::uint32_t own = among == Among::all ? step_ : step_on_host_;
  return static_cast<std::int32_t>(arrived(rank, among).load(std::memory_order_acquire) - own) >= 0;
}

// A step of all is told by the line that is needed next.
bool StepBarrier::spin_for(int rank, Among among) const {
  const int spins = kEagerSpins + (crowded_ ? 0 : kPauses);
  for (int spin = 0; spin < spins; ++spin) {
    if (among == Among::all
            ? block(rank).areas[step_ % 2].step.load(std::memory_order_acquire) == step_
            : reached(rank, among)) {
      return true;
    }
    if (spin >= kEagerSpins) relax();
  }
  return false;
}

std::optional<Failure> StepBarrier::wait_for(int rank, Among among) {
  if (spin_for(rank, among)) return std::nullopt;
  const std::uint64_t start = monotonic_ns();
  std::optional<Failure> failure;
  while (!reached(rank, among)) {
    if (interrupted_.load(std::memory_order_seq_cst))
      return Failure{FailureKind::left, rank_, 0, "", {}};
    if (monotonic_ns() - start < kYieldNs) {
      ::sched_yield();
      continue;
    }
    sleep_on(rank, among);
    if (reached(rank, among)) break;
    failure = diagnose(rank, among);
    // What a peer published before it died or left still counts.
    if (failure && !reached(rank, among)) break;
    failure.reset();
    if (while_waiting_) while_waiting_(monotonic_ns() - start);
  }
  waited_ns_ += monotonic_ns() - start;
  return failure;
}

std::optional<Failure> StepBarrier::wait_outside(const std::function<Turn(int most_ms)>& turn) {
  const std::uint64_t start = monotonic_ns();
  std::uint64_t next_look = start + kLookNs;
  std::optional<std::uint64_t> judged;  // when a lost connection is
  while (!failure_) {
    const Turn now = turn(kLookNs / 1'000'000);
    if (now.over) break;
    const std::uint64_t time = monotonic_ns();
    if (time < next_look) continue;
    next_look = time + kLookNs;
    failure_ = look_outside();
    if (now.lost && !judged) judged = time + kJudgeNs;
    if (failure_ || !judged || time < *judged) continue;
    failure_ = now.garbled ? record(FailureKind::garbled, *now.lost) : judge(*now.lost);
  }
  waited_ns_ += monotonic_ns() - start;
  return passed_on(failure_);
}

// Who has left may well have done its part before.
std::optional<Failure> StepBarrier::look_outside() {
  if (interrupted_.load(std::memory_order_seq_cst))
    return Failure{FailureKind::left, rank_, 0, "", {}};
  if (auto known = segment_->failure()) return known;
  if (!somebody_may_be_gone()) return std::nullopt;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_ || segment_->alive(rank)) continue;
    const auto& left = segment_->block(rank).left;
    if (left.load(std::memory_order_acquire) == 0) return record(FailureKind::died, rank);
  }
  return std::nullopt;
}

bool StepBarrier::is_gone(int rank) const {
  return segment_->block(rank).left.load(std::memory_order_acquire) != 0 || !segment_->alive(rank);
}

bool StepBarrier::somebody_may_be_gone() {
  if (size_ <= kFewRanks) return true;
  const int looks = std::max(kFewRanks, size_ / kSharesOfMany);
  for (int look = 0; look < looks; ++look) {
    next_look_ = (next_look_ + 1) % size_;
    if (next_look_ != rank_ && is_gone(next_look_)) return true;
  }
  return false;
}

Failure StepBarrier::judge(int lost) {
  const bool left = segment_->block(lost).left.load(std::memory_order_acquire) != 0;
  return record(left ? FailureKind::left : FailureKind::died, lost);
}

bool StepBarrier::anybody_ahead() const {
  for (int rank = 0; rank < size_; ++rank) {
    const std::uint32_t arrived = block(rank).arrived.load(std::memory_order_seq_cst);
    if (static_cast<std::int32_t>(arrived - step_) > 0) return true;
  }
  return false;
}

std::optional<Failure> StepBarrier::wait_for_anybody(const std::function<bool()>& ready) {
  const auto over = [&] {
    return interrupted_.load(std::memory_order_seq_cst) || ready() || anybody_ahead();
  };
  const std::uint64_t start = monotonic_ns();
  while (!failure_ && !over()) {
    if (monotonic_ns() - start < kIdleYieldNs) {
      ::sched_yield();
      continue;
    }
    segment_->wait_idle(over, static_cast<long>(look_ns_));
    if (!over()) failure_ = find_missing();
  }
  return passed_on(failure_);
}

// Of those that nobody is waiting for in a step.
std::optional<Failure> StepBarrier::find_missing() {
  if (auto known = segment_->failure()) return known;
  if (!somebody_may_be_gone()) return std::nullopt;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const auto& left = segment_->block(rank).left;
    const bool alive = segment_->alive(rank);  // asked first: who leaves says so before it ends
    if (left.load(std::memory_order_acquire) != 0) return record(FailureKind::left, rank);
    if (!alive) return record(FailureKind::died, rank);
  }
  return std::nullopt;
}

std::optional<Failure> StepBarrier::find_failure() {
  if (auto known = segment_->failure()) {
    if (known->kind != FailureKind::left) return passed_on(known);
  }
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const bool alive = segment_->alive(rank);  // asked first: who leaves says so before it ends
    const auto left = segment_->block(rank).left.load(std::memory_order_acquire);
    if (!alive && left == 0) return passed_on(record(FailureKind::died, rank));
  }
  return std::nullopt;
}

void StepBarrier::sleep_on(int rank, Among among) {
  sleepers(rank, among).fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t seen = arrived(rank, among).load(std::memory_order_seq_cst);
  if (!reached(rank, among)) futex_wait(arrived(rank, among), seen, static_cast<long>(look_ns_));
  sleepers(rank, among).fetch_sub(1, std::memory_order_seq_cst);
}

// Why this step cannot end, if so: what another rank has found, else a missing peer that died,
// else one that left. Death comes first: ranks leave because another one died. Without the
// rank that runs the bridge the awaited one cannot come either, even when that rank itself has.
std::optional<Failure> StepBarrier::diagnose(int awaited, Among among) {
  if (auto known = segment_->failure()) return known;
  if (!is_gone(awaited) && !somebody_may_be_gone()) return std::nullopt;
  const auto bridge = segment_->bridge();
  const auto missing = [&](int rank) {
    if (among == Among::all) return !reached(rank == bridge ? awaited : rank, among);
    return segment_->block(rank).host == segment_->header().host && !reached(rank, among);
  };
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

Failure StepBarrier::record(FailureKind kind, int rank) {
  segment_->set_failure(kind, rank);
  return *segment_->failure();
}

// Not that this rank was interrupted, which only it knows.
std::optional<Failure> StepBarrier::passed_on(std::optional<Failure> failure) {
  if (failure && segment_->failed() && segment_->bridge() == rank_)
    segment_->wait_until_failure_is_told(kTellNs);
  return failure;
}

void StepBarrier::leave() {
  segment_->set_left(rank_);
}

std::vector<int> StepBarrier::absent() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_ && !reached(rank, Among::all)) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace libhvd
