// Background threads that keep the next batches ready.
//
// The batches of all epochs, from a position on, are numbered 0, 1, 2, …: their tickets. A thread
// takes the next ticket, as long as there is a free slot for it in a ring, and fills that slot; the
// consumer takes the slots in the order of the tickets. So threads finish in any order and the
// consumer sees one. The thread that meets a new epoch works out its order; the others wait.
#pragma once

#include "data/batch.hpp"
#include "data/loader.hpp"
#include "data/shard.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace libhvd {

class Pipeline {
 public:
  struct Options {
    ShardOptions shard;     // of the epoch to begin with
    std::int64_t step = 0;  // to begin with, 0 … the epoch's steps
    int threads = 1;
    int prefetch = 1;  // batches that are ready beside the one in use
  };

  // `first` is the shard of options.shard, with at least one step; `loader` must live longer.
  Pipeline(Loader& loader, std::shared_ptr<const Shard> first, const Options& options);
  // Ends the threads: each finishes the sample it is at, or the order of the next epoch.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Once. Throws std::system_error when there can be no more threads.
  void start();

  // Waits for the next batch, and ends the use of the one before. One thread at a time.
  Result<const Batch*> next();

 private:
  struct Slot {
    Batch batch;
    std::optional<Error> error;
    bool ready = false;
  };

  Slot& slot_of(std::int64_t ticket) {
    return slots_[static_cast<std::size_t>(ticket) % slots_.size()];
  }
  // Both of a ticket.
  std::int64_t epoch_of(std::int64_t ticket) const;
  std::int64_t step_of(std::int64_t ticket) const;

  void work();
  bool may_take() const;
  void plan(std::unique_lock<std::mutex>& lock);
  void fill(std::int64_t ticket, const Result<std::shared_ptr<const Shard>>& shard,
            ByteBuffer& scratch);

  Loader& loader_;
  const Options options_;
  const std::int64_t steps_;
  std::atomic<bool> stopping_{false};

  std::mutex mutex_;                            // for what follows, and Slot::ready
  std::condition_variable may_work_;            // a ticket may be taken
  std::condition_variable is_ready_;            // a slot is ready
  Result<std::shared_ptr<const Shard>> shard_;  // of planned_epoch_
  std::int64_t planned_epoch_;
  bool planning_ = false;
  std::int64_t next_ticket_ = 0;
  std::int64_t handed_back_ = 0;  // tickets that the consumer is done with
  std::vector<Slot> slots_;

  bool holds_ = false;  // the consumer has the batch of ticket handed_back_
  std::vector<std::thread> threads_;
};

}  // namespace libhvd
