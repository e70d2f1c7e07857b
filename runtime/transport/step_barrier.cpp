#include "transport/step_barrier.hpp"

#include "common/clock.hpp"
#include "transport/bridge.hpp"
#include "transport/futex.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <sched.h>

namespace libhvd {
namespace {

// A pause takes the processor up to 140 cycles, longer than a cache line needs from core to core.
constexpr int kEagerSpins = 50;
// What a rank fetches of another one's area while it waits for the step: the data then comes
// together with the number of the step, and not after it. With more data it gained nothing.
constexpr std::size_t kMostFetched = 2 * kCacheLine;
// What a rank takes back of its next area while it reads the others' data. With more it gained
// nothing.
constexpr std::size_t kMostPrepared = 8 * kCacheLine;
constexpr int kPauses = 100;
constexpr std::uint64_t kYieldNs = 1'000'000;
// About the time between two steps of a large message. A rank that yields may give its processor to
// another program for milliseconds, and all ranks then wait for it. So it polls that long first.
constexpr std::uint64_t kStepNs = 50'000;
constexpr int kPausesPerLook = 10;
// About the time of a small message to another host and back.
constexpr std::uint64_t kPollNs = 15'000;
// About the time of a part of a large message.
constexpr std::uint64_t kPollDataNs = 100'000;
constexpr std::uint64_t kLookNs = 20'000'000;
// If more ranks share a processor, each looks less often, or they would keep it busy.
constexpr int kLookersPerProcessor = 8;
constexpr std::uint64_t kIdleYieldNs = 50'000;
// If there are more ranks, each look is at some of them in turn. The cost of a look grows with the
// number of ranks, and so does the number of ranks that look: thousands would do little else. All
// looks together cover every rank.
constexpr int kFewRanks = 64;
constexpr int kSharesOfMany = 32;  // each look is at one of these shares
// Time for the bridges to bring the reason why a connection has ended.
constexpr std::uint64_t kJudgeNs = 200'000'000;
// Time for this rank's bridge to send a failure. It is bounded, because a host may take nothing.
constexpr std::uint64_t kSendFailureNs = 200'000'000;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Fetches a cache line that this rank will write, and takes it from other processors.
void prepare_to_write(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

// Returns whether the rank lives and continues to publish after this failure.
bool rank_lives(FailureKind kind) {
  return kind == FailureKind::forked || kind == FailureKind::device ||
         kind == FailureKind::broken || kind == FailureKind::stalled || kind == FailureKind::waited;
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
  const Area area = mine();
  if (failure_) return failure_;
  copy_header(area.header, header_);
  ++step_;
  Bridge* const bridge = segment_->bridge_here();
  if (bridge != nullptr && bridge->take_turns()) bridge_ = bridge;
  segment_->publish(first_block_ + rank_, step_);
  auto failure = wait_for_all(Among::all);
  if (bridge_ != nullptr) std::exchange(bridge_, nullptr)->return_turns();
  if (failure) return failure_ = passed_on(std::move(failure));
  // Takes the beginning of the next area back from the other ranks, which have finished reading it.
  // Not after posts, because more of them are likely.
  if (area.used.input > 0 && whole_step_ + 1 == step_) {
    const std::byte* const next = next_of(rank_).input;
    for (std::size_t at = 0; at < std::min<std::size_t>(area.used.input, kMostPrepared);
         at += kCacheLine)
      prepare_to_write(next + at);
  }
  whole_step_ = step_;
  read_next_ = 0;
  results_in_use_ = false;
  if (step_ == 1) learn_processors();
  // A death that others have found concerns the next step, because all have published this one. But
  // a rank with another failure may live and continue to publish: one that a forked child used, one
  // whose device has failed, or one that is late.
  if (segment_->failed()) {
    const auto known = segment_->failure();
    if (known && rank_lives(known->kind)) failure_ = passed_on(known);
  }
  mine().used = {};
  return failure_;
}

std::optional<Failure> StepBarrier::wait_for_all(Among among) {
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    if (auto failure = wait_for(rank, among)) return failure;
  }
  return std::nullopt;
}

// A rank that has published the step after the last whole one has finished reading that.
void StepBarrier::wait_for_readers() {
  if (!failure_) failure_ = passed_on(wait_for_all(Among::readers));
}

std::optional<Failure> StepBarrier::post(const StepHeader& header,
                                         std::span<const std::byte> data) {
  if (!failure_ && segment_->failed()) failure_ = passed_on(segment_->failure());
  const bool in_slot = data.size() <= kSlotBytes;
  // Ranks may still read result areas, where the data goes. (Whole steps write there only after a
  // step that all ranks have entered.)
  if (!in_slot && std::exchange(results_in_use_, false)) wait_for_readers();
  if (failure_) return failure_;
  ++step_;
  PostSlot& own = slot(rank_, step_);
  copy_header(own.header, header);
  if (!data.empty()) std::memcpy(in_slot ? own.data : post_room(rank_), data.data(), data.size());
  segment_->publish_post(first_block_ + rank_, step_);
  const PostSlot& next = slot(rank_, step_ + 1);
  prepare_to_write(&next.step);
  if (!data.empty()) prepare_to_write(next.data);
  return std::nullopt;
}

std::optional<Failure> StepBarrier::wait_for_post(int rank) {
  if (find_post(rank) != nullptr) {
    // The rank is ahead, so its next post may be there, too. Otherwise to fetch that would take its
    // line away from the rank, which is about to write it.
    const PostSlot& next = slot(rank, step_ + 1);
    __builtin_prefetch(&next.step);
    __builtin_prefetch(next.data);
    return failure_;
  }
  if (!failure_) failure_ = passed_on(wait_for(rank, Among::post));
  return failure_;
}

const PostSlot* StepBarrier::find_post(int rank) const {
  const PostSlot& theirs = slot(rank, step_);
  return theirs.step.load(std::memory_order_acquire) == step_ ? &theirs : nullptr;
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
  return among == Among::host ? block(rank).arrived_on_host : block(rank).arrived;
}

std::atomic<std::uint32_t>& StepBarrier::sleepers(int rank, Among among) const {
  return among == Among::host ? block(rank).sleepers_on_host : block(rank).sleepers;
}

std::uint32_t StepBarrier::awaited(Among among) const {
  if (among == Among::host) return step_on_host_;
  return among == Among::readers ? whole_step_ + 1 : step_;
}

// Step numbers wrap around. No rank is ever more than kPosts steps away from another.
bool StepBarrier::reached(int rank, Among among) const {
  const std::uint32_t there = arrived(rank, among).load(std::memory_order_acquire);
  return static_cast<std::int32_t>(there - awaited(among)) >= 0;
}

// Spins on the cache line that is needed next, if it is known.
bool StepBarrier::spin_for(int rank, Among among) const {
  const int spins = kEagerSpins + (crowded_ ? 0 : kPauses);
  const bool fetches = among == Among::all && read_next_ > 0 && read_next_ <= kMostFetched;
  const std::byte* const data = fetches ? theirs(rank).input + read_next_at_ : nullptr;
  for (int spin = 0; spin < spins; ++spin) {
    if (fetches) {
      __builtin_prefetch(data);
      __builtin_prefetch(data + kMostFetched - kCacheLine);
    }
    const bool there =
        among == Among::all
            ? block(rank).areas[step_ % 2].step.load(std::memory_order_acquire) == step_
        : among == Among::post ? find_post(rank) != nullptr
                               : reached(rank, among);
    if (there) return true;
    if (spin >= kEagerSpins) relax();
  }
  return false;
}

std::optional<Failure> StepBarrier::wait_for(int rank, Among among) {
  if (bridge_ != nullptr ? reached(rank, among) : spin_for(rank, among)) return std::nullopt;
  const std::uint64_t start = monotonic_ns();
  if (when_waiting_) when_waiting_();
  std::optional<Failure> failure;
  while (!reached(rank, among)) {
    if (interrupted_.load(std::memory_order_seq_cst))
      return Failure{FailureKind::left, rank_, 0, "", {}};
    if (const std::uint64_t waited = monotonic_ns() - start;
        waited < kYieldNs && !segment_->failed()) {
      if (bridge_ != nullptr) bridge_->turn();
      if (!crowded_ && waited < (bridge_ != nullptr ? kPollNs : kStepNs)) {
        for (int pause = 0; bridge_ == nullptr && pause < kPausesPerLook; ++pause) relax();
      } else if (!reached(rank, among)) {
        ::sched_yield();
      }
      continue;
    }
    sleep_on(rank, among);
    if (reached(rank, among)) break;
    failure = diagnose(rank, among);
    // A step that the peer published before it died or left is still valid.
    if (failure && !reached(rank, among)) break;
    failure.reset();
    if (while_waiting_) while_waiting_(monotonic_ns() - start);
  }
  waited_ns_ += monotonic_ns() - start;
  return failure;
}

std::optional<Failure> StepBarrier::wait_outside(const std::function<Turn(int most_ms)>& turn) {
  const std::uint64_t start = monotonic_ns();
  if (when_waiting_) when_waiting_();
  std::uint64_t time = start;
  std::uint64_t next_look = start + kLookNs;
  std::optional<std::uint64_t> judged;  // when a lost connection becomes a failure
  while (!failure_) {
    const bool polls = !crowded_ && time - start < kPollDataNs;
    const Turn now = turn(polls ? 0 : kLookNs / 1'000'000);
    if (now.over) break;
    if (polls) ::sched_yield();  // another rank may share the processor, also one of another host
    time = monotonic_ns();
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

// Returns a failure that was recorded outside this step, or the death of a rank. A rank that has
// left is no failure: it may have done its part of the step before.
std::optional<Failure> StepBarrier::look_outside() {
  if (interrupted_.load(std::memory_order_seq_cst))
    return Failure{FailureKind::left, rank_, 0, "", {}};
  if (auto known = segment_->failure()) return known;
  if (!any_may_be_gone()) return std::nullopt;
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

bool StepBarrier::any_may_be_gone() {
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

bool StepBarrier::any_rank_ahead() const {
  for (int rank = 0; rank < size_; ++rank) {
    const std::uint32_t arrived = block(rank).arrived.load(std::memory_order_seq_cst);
    if (static_cast<std::int32_t>(arrived - step_) > 0) return true;
  }
  return false;
}

std::optional<Failure> StepBarrier::wait_for_any(const std::function<bool()>& ready) {
  const auto over = [&] {
    return interrupted_.load(std::memory_order_seq_cst) || ready() || any_rank_ahead();
  };
  const std::uint64_t start = monotonic_ns();
  while (!failure_ && !over()) {
    if (monotonic_ns() - start < kIdleYieldNs && !segment_->failed()) {
      ::sched_yield();
      continue;
    }
    segment_->wait_idle([&] { return over() || segment_->failed(); }, static_cast<long>(look_ns_));
    if (!over()) failure_ = find_missing();
  }
  return passed_on(failure_);
}

// Looks for failures of ranks while no step waits for them.
std::optional<Failure> StepBarrier::find_missing() {
  if (auto known = segment_->failure()) return known;
  if (!any_may_be_gone()) return std::nullopt;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const auto& left = segment_->block(rank).left;
    const bool alive = segment_->alive(rank);  // read first: a rank publishes that it leaves
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
    const bool alive = segment_->alive(rank);  // read first: a rank publishes that it leaves
    const auto left = segment_->block(rank).left.load(std::memory_order_acquire);
    if (!alive && left == 0) return passed_on(record(FailureKind::died, rank));
  }
  return std::nullopt;
}

void StepBarrier::sleep_on(int rank, Among among) {
  if (bridge_ != nullptr) {
    const auto over = [&] { return reached(rank, among) || segment_->failed(); };
    bridge_->turn();
    return bridge_->sleep(over, look_ns_);
  }
  sleepers(rank, among).fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t seen = arrived(rank, among).load(std::memory_order_seq_cst);
  if (!reached(rank, among) && !segment_->failed())
    futex_wait(arrived(rank, among), seen, static_cast<long>(look_ns_));
  sleepers(rank, among).fetch_sub(1, std::memory_order_seq_cst);
}

// Returns why this step cannot end, or nullopt: the failure that another rank has found, or else a
// missing peer that died, or else one that left. Death comes first, because ranks leave after
// another one died. Without the bridge's rank the awaited one cannot publish here, even if the
// bridge's rank itself has published.
std::optional<Failure> StepBarrier::diagnose(int awaited, Among among) {
  if (auto known = segment_->failure()) return known;
  if (!is_gone(awaited) && !any_may_be_gone()) return std::nullopt;
  const auto bridge = segment_->bridge();
  const auto missing = [&](int rank) {
    if (among != Among::host) return !reached(rank == bridge ? awaited : rank, among);
    return segment_->block(rank).host == segment_->header().host && !reached(rank, among);
  };
  std::optional<int> leaver;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_ || !missing(rank)) continue;
    const auto& left = segment_->block(rank).left;
    const bool alive = segment_->alive(rank);  // read first: a rank publishes that it leaves
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

// Waits on the bridge's rank until the bridge has sent the failure. An interruption is not in the
// segment, so it is returned at once.
std::optional<Failure> StepBarrier::passed_on(std::optional<Failure> failure) {
  if (failure) segment_->wait_until_failure_is_sent(rank_, kSendFailureNs);
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
