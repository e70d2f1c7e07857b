// The steps of ranks through a shared segment: each rank writes its area, publishes the step, waits
// until all have published it, and reads the areas of all.
//
// A step uses the area of its parity. When a rank returns from step t, every rank has published t,
// so every rank has finished reading what was written for t-1, and that area may be written again.
// This one rule is all that the collectives need, and the reason why one wait for each chunk is
// enough.
//
// On one host a rank can also post a step: it fills a slot of its own instead of its area, and does
// not wait. What the slot does not hold is in its result area (post_room()). Only ranks that need
// the post wait, and for the posting rank alone. There are kPosts slots, and every step whose
// number is a multiple of kPosts is a whole one. So when a rank posts step t, every rank has
// published a later step than t - kPosts, and has finished reading that slot. A rank may also write
// into another one's area of the last step, but only what that one alone reads, and reads after the
// next step. After posts, a rank that wants to write its area first waits until all ranks have
// finished reading the last whole step.
//
// One thread at a time, except where it says "any thread". A wait spins briefly (not if ranks share
// processors), then yields the processor, then sleeps on a futex. In the process of the bridge it
// does the bridge's work meanwhile, and sleeps on the bridge's connections (bridge.hpp). While it
// sleeps it looks every 20 ms whether the peers that it waits for still live, and less often if
// more than eight ranks share a processor. The first rank to find a failure writes it into the
// segment, so that all ranks report the same one. The bridge's rank returns with it after the
// bridge has sent it to the other hosts. After a failure every step fails with it at once.
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
  // `rank` must have announced itself in the segment. Its peers use the same lane.
  StepBarrier(std::shared_ptr<Segment> segment, int rank, int lane = 0);

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::shared_ptr<Segment>& segment() const { return segment_; }

  // Returns the area to write before the next step. No part of it is marked as used yet. After
  // posts it waits until the area is free; if that fails, so does the next step.
  Area mine() {
    if (step_ != whole_step_) wait_for_readers();
    return next_of(rank_);
  }

  // Returns the header of the next step and of all later ones, until it is changed. It is kept
  // apart until step(), because peers that wait for the step read the header's cache line over and
  // over.
  StepHeader& header() { return header_; }

  // Returns the next area of another rank, which must not write into it for the next step. Only if
  // all ranks are on one host: its contents do not travel to others.
  Area next_of(int rank) { return segment_->area(first_block_ + rank, step_ + 1); }
  bool on_one_host() const { return !segment_->has_bridge(); }

  // Says that so many bytes at this place of the other ranks' input areas are read after the next
  // step. A rank that waits without being the bridge fetches a few of them meanwhile.
  void will_read(std::size_t place, std::size_t bytes) {
    read_next_ = bytes;
    read_next_at_ = place;
  }

  // Publishes the area and waits for all ranks. Returns nullopt on success, or else the failure.
  // After success theirs() is valid until the next step.
  std::optional<Failure> step();
  Area theirs(int rank) const { return segment_->area(first_block_ + rank, step_); }

  // Returns whether the next step may be a post.
  bool may_post() const {
    return whole_step_ != 0 && (step_ + 1) % kPosts != 0 && on_one_host() && lane_ == 0 &&
           segment_->layout().has_posts();
  }
  // Publishes the next step with this header and these bytes, SegmentLayout::post_bytes() at most,
  // and does not wait. Returns the failure that ended the job's steps, if there is one.
  std::optional<Failure> post(const StepHeader& header, std::span<const std::byte> data);
  // Waits until the rank has published the step that this rank has posted.
  std::optional<Failure> wait_for_post(int rank);
  // Returns what the rank has posted for this step, or null if it has done a whole step. The rank
  // must have published the step. Valid until this rank's next step.
  const PostSlot* find_post(int rank) const;
  // Returns the bytes of that post, of which there are so many.
  const std::byte* post_data(int rank, std::size_t bytes) const {
    return bytes <= kSlotBytes ? slot(rank, step_).data : post_room(rank);
  }
  // Says that ranks may still read result areas of the last step.
  void note_results() { results_in_use_ = true; }
  // Returns whether the rank has posted this step. Call it after step().
  bool has_posted(int rank) const {
    return block(rank).areas[step_ % 2].step.load(std::memory_order_relaxed) != step_;
  }

  // Returns the room of all ranks, for a step in which only this rank shows anything; all ranks
  // must know that. mine().used.wide declares that it is used.
  std::span<std::byte> wide() { return segment_->wide(lane_, step_ + 1); }
  // Returns it after the step, to read what the one rank has shown.
  std::span<const std::byte> shown_wide() const { return segment_->wide(lane_, step_); }

  // Does a step of this host's ranks alone. Returns when all of them have entered it. It carries no
  // data.
  std::optional<Failure> step_on_host();

  // Waits for data that does not move through the segment. `turn` waits for it, for `most_ms` at
  // most. If a connection is lost, the real failure gets some time to become known.
  struct Turn {
    bool over = false;             // all data has arrived
    std::optional<int> lost = {};  // the connection to this rank has ended, so data cannot arrive
    bool garbled = false;          // it ended because data was changed on the way
  };
  std::optional<Failure> wait_outside(const std::function<Turn(int most_ms)>& turn);

  // Publishes that this rank takes part no more.
  void leave();

  // Ends the job for all ranks, with a failure of `rank`. Safe in a forked child.
  void abort_job(FailureKind kind, int rank) { segment_->set_failure(kind, rank); }

  // Sets a hook that is called when a wait is longer than a short spin. Set it before the first
  // step.
  void on_wait(std::function<void()> hook) { when_waiting_ = std::move(hook); }
  // Sets a hook that is called about every 20 ms while a step waits. Set it before the first step.
  void on_long_wait(std::function<void(std::uint64_t waited_ns)> hook) {
    while_waiting_ = std::move(hook);
  }
  // Returns the ranks that have not published the step.
  std::vector<int> absent() const;

  // Returns why the collectives that the ranks have begun cannot end, or nullopt. A rank that has
  // left is no such reason, because it has done its part before. Any thread.
  std::optional<Failure> find_failure();

  // Waits until a peer has published the next step, or `ready` returns true. In the second lane
  // only. `ready` is called again when something was published there, and after wake().
  std::optional<Failure> wait_for_any(const std::function<bool()>& ready);
  void wake() { segment_->wake(); }  // any thread

  // Makes the wait of another thread fail at its next look, and all later waits. Any thread.
  void interrupt() {
    interrupted_.store(true, std::memory_order_seq_cst);
    wake();
  }

  // Returns the time spent in waits that were longer than a short spin, in ns.
  std::uint64_t waited_ns() const { return waited_ns_; }

 private:
  RankBlock& block(int rank) const { return segment_->block(first_block_ + rank); }
  PostSlot& slot(int rank, std::uint32_t step) const {
    return segment_->post(first_block_ + rank, step);
  }
  // Returns the room for this step's post, which is in a result area of the rank. Where it is
  // follows from the number of the step alone. So ranks whose calls did not fit together still find
  // it.
  std::byte* post_room(int rank) const {
    const std::size_t place = step_ % kPosts * segment_->layout().post_bytes();
    return segment_->area(first_block_ + rank, 0).result + place;
  }

  // What is waited for: a step of all ranks, one of this host's, which have numbers of their own, a
  // post, or that a rank has finished reading the last whole step.
  enum class Among { all, host, post, readers };
  std::uint32_t awaited(Among among) const;
  std::atomic<std::uint32_t>& arrived(int rank, Among among) const;
  std::atomic<std::uint32_t>& sleepers(int rank, Among among) const;

  void learn_processors();
  std::optional<Failure> wait_for_all(Among among);
  void wait_for_readers();
  std::optional<Failure> wait_for(int rank, Among among);
  bool reached(int rank, Among among) const;
  bool spin_for(int rank, Among among) const;
  bool any_rank_ahead() const;
  std::optional<Failure> find_missing();
  void sleep_on(int rank, Among among);
  std::optional<Failure> diagnose(int awaited, Among among);
  std::optional<Failure> look_outside();
  bool is_gone(int rank) const;
  // Returns whether all ranks should be looked at. If there are many, it first looks at the next
  // few of them only.
  bool any_may_be_gone();
  Failure judge(int lost);
  Failure record(FailureKind kind, int rank);
  std::optional<Failure> passed_on(std::optional<Failure> failure);

  std::shared_ptr<Segment> segment_;
  int rank_;
  int size_;
  int lane_;
  int first_block_;          // of the lane
  std::vector<int> locals_;  // the ranks of this host; empty before the first step_on_host()
  std::uint32_t step_ = 0;
  std::uint32_t whole_step_ = 0;  // the last one that was not a post; 0 before the first
  std::uint32_t step_on_host_ = 0;
  StepHeader header_{};
  std::size_t read_next_ = 0;  // see will_read()
  std::size_t read_next_at_ = 0;
  bool results_in_use_ = false;  // see note_results()
  std::uint64_t waited_ns_ = 0;
  int next_look_;
  bool crowded_ = true;        // ranks share processors; also true before the first step
  std::uint64_t look_ns_ = 0;  // time between two looks while asleep
  std::optional<Failure> failure_;
  Bridge* bridge_ = nullptr;  // during a step: the one here, whose turns this thread has
  std::function<void()> when_waiting_;
  std::function<void(std::uint64_t)> while_waiting_;
  std::atomic<bool> interrupted_{false};
};

}  // namespace libhvd
