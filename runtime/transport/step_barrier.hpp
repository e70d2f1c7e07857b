// Ranks that go through a shared segment in steps: each writes its area, publishes the step, waits
// until all have published it, and reads the areas of all.
//
// A step uses the area of its parity. When a rank comes back from step t, every rank has published
// t, so it has finished reading what was written for t-1: that area may be written again. This
// one rule is all that the collectives need, and why one wait a chunk is enough.
//
// One thread at a time. A wait spins shortly (not where ranks share processors), then yields the
// processor, then sleeps on a futex; asleep it looks every 20 ms whether the peers that it waits
// for still live, and less often where more than eight ranks share a processor. The first rank to
// find a failure writes it into the segment, so that all name the same one; the rank with the
// bridge returns with it when the other hosts have been told. After a failure every step fails at
// once with it.
#pragma once

#include "transport/failure.hpp"
#include "transport/segment.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace libhvd {

class StepBarrier {
 public:
  // `rank` has announced itself in the segment. Its peers go in the same lane of it.
  StepBarrier(std::shared_ptr<Segment> segment, int rank, int lane = 0);

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::shared_ptr<Segment>& segment() const { return segment_; }

  // The area to write before the next step. Nothing in it counts as used yet.
  Area mine() { return next_of(rank_); }

  // What stands first in it for the next step, and for all that follow until it is changed. Kept
  // apart until then: peers that wait for the step are reading its cache line over and over.
  StepHeader& header() { return header_; }

  // The same of another rank, which writes nothing into its own for the next step: only where all
  // ranks are on one host, as what stands here does not travel to others.
  Area next_of(int rank) { return segment_->area(first_block_ + rank, step_ + 1); }
  bool on_one_host() const { return !segment_->bridge(); }

  // Publishes it and waits for all ranks. Nothing: success; theirs() is valid until the next step.
  std::optional<Failure> step();
  Area theirs(int rank) const { return segment_->area(first_block_ + rank, step_); }

  // For a step in which this rank alone shows anything, as all ranks know: the room of all of them.
  // What stands here is named by mine().used.wide.
  std::span<std::byte> wide() { return segment_->wide(lane_, step_ + 1); }
  // The same after the step, of the rank that has shown something.
  std::span<const std::byte> shown_wide() const { return segment_->wide(lane_, step_); }

  // A step of the ranks of this host alone: returns when all of them have come, and brings nothing
  // but that.
  std::optional<Failure> step_on_host();

  // Waits for what does not come through the segment. `turn` waits for it, for at most so many
  // milliseconds, and says whether it is there; and if it cannot come any more, as the connection
  // to a rank has ended, that rank, and whether that is because what came there was changed on its
  // way. Why it is so is then given some time to become known.
  struct Turn {
    bool over = false;
    std::optional<int> lost = {};
    bool garbled = false;
  };
  std::optional<Failure> wait_outside(const std::function<Turn(int most_ms)>& turn);

  // Tells the peers that this rank takes part no more.
  void leave();

  // Ends the job for all ranks because of what `rank` has done. Safe in a forked child.
  void abort_job(FailureKind kind, int rank) { segment_->set_failure(kind, rank); }

  // Called every 20 ms or so while a step waits. Set it before the first step.
  void on_long_wait(std::function<void(std::uint64_t waited_ns)> hook) {
    while_waiting_ = std::move(hook);
  }
  // The ranks that have not published the step.
  std::vector<int> absent() const;

  // Any thread: why what the ranks have begun together cannot end, if so. That one has left is no
  // such reason, as it has done its part before.
  std::optional<Failure> find_failure();

  // Waits until a peer has published the next step, or `ready`. In the second lane only. `ready` is
  // asked again whenever anything was published there, and after wake().
  std::optional<Failure> wait_for_anybody(const std::function<bool()>& ready);
  void wake() { segment_->wake(); }  // any thread

  // Any thread: the wait that another one is in, and all later ones, fail at its next look.
  void interrupt() {
    interrupted_.store(true, std::memory_order_seq_cst);
    wake();
  }

  // Nanoseconds spent in waits that were longer than a short spin.
  std::uint64_t waited_ns() const { return waited_ns_; }

 private:
  RankBlock& block(int rank) const { return segment_->block(first_block_ + rank); }

  // Who goes in step: each kind of step counts for itself.
  enum class Among { all, host };
  std::atomic<std::uint32_t>& arrived(int rank, Among among) const;
  std::atomic<std::uint32_t>& sleepers(int rank, Among among) const;

  void learn_processors();
  std::optional<Failure> wait_for(int rank, Among among);
  bool reached(int rank, Among among) const;
  bool spin_for(int rank, Among among) const;
  bool anybody_ahead() const;
  std::optional<Failure> find_missing();
  void sleep_on(int rank, Among among);
  std::optional<Failure> diagnose(int awaited, Among among);
  std::optional<Failure> look_outside();
  bool is_gone(int rank) const;
  // Of many ranks, looks at some that it has not looked at before; true: all are worth a look.
  bool somebody_may_be_gone();
  Failure judge(int lost);
  Failure record(FailureKind kind, int rank);
  std::optional<Failure> passed_on(std::optional<Failure> failure);

  std::shared_ptr<Segment> segment_;
  int rank_;
  int size_;
  int lane_;
  int first_block_;          // of the lane
  std::vector<int> locals_;  // the others of this host, once we step among them
  std::uint32_t step_ = 0;
  std::uint32_t step_on_host_ = 0;
  StepHeader header_{};
  std::uint64_t waited_ns_ = 0;
  int next_look_;
  bool crowded_ = true;        // until all have announced themselves
  std::uint64_t look_ns_ = 0;  // between two looks of one that sleeps
  std::optional<Failure> failure_;
  std::function<void(std::uint64_t)> while_waiting_;
  std::atomic<bool> interrupted_{false};
};

}  // namespace libhvd
