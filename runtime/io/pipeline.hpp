// Background threads that keep the next batches ready.
//
// The batches of all epochs, from the first position on, are numbered 0, 1, 2, …: their tickets. A
// thread takes the next ticket if a slot of a ring is free for it, and fills that slot. The
// consumer takes the slots in the order of tickets. So threads may finish in any order, but the
// consumer always sees the same one. The first thread that reaches a new epoch computes its order,
// and the others wait for that.
#pragma once

#include "base/error.hpp"
#include "io/batch.hpp"
#include "io/byte_buffer.hpp"
#include "io/loader.hpp"
#include "io/shard.hpp"

#include <atomic>
#include <condition_variable>
#include <cstddef>
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
    ShardOptions shard;     // of the first epoch
    std::int64_t step = 0;  // the first one: 0 … the epoch's steps
    int threads = 1;
    int prefetch = 1;  // batches to keep ready besides the one in use
  };

  // `first`: the shard of options.shard, with at least one step. `loader` must outlive the
  // pipeline.
  Pipeline(Loader& loader, std::shared_ptr<const Shard> first, const Options& options);
  // Ends the threads. Each first finishes its current sample, or the order of the next epoch.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Starts the threads. Call it once. Error: no thread can be started.
  Result<void> start();

  // Waits for the next batch. The one before becomes invalid. One thread at a time. Error: this
  // batch cannot be read; the next call returns the one after it.
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
  // The epoch and step of a ticket.
  std::int64_t epoch_of(std::int64_t ticket) const;
  std::int64_t step_of(std::int64_t ticket) const;

  void work();
  bool may_take() const;  // needs the mutex
  void plan(std::unique_lock<std::mutex>& lock);
  void fill(std::int64_t ticket, const Result<std::shared_ptr<const Shard>>& shard,
            ByteBuffer& scratch);

  Loader& loader_;
  const Options options_;
  const std::int64_t steps_;
  std::atomic<bool> stopping_{false};

  std::mutex mutex_;                  // guards the members down to slots_ (of a slot, `ready`)
  std::condition_variable may_work_;  // a ticket may be taken
  std::condition_variable is_ready_;  // a slot is ready
  Result<std::shared_ptr<const Shard>> shard_;  // of planned_epoch_
  std::int64_t planned_epoch_;
  bool planning_ = false;
  std::int64_t next_ticket_ = 0;
  std::int64_t handed_back_ = 0;  // tickets that the consumer no longer uses
  std::vector<Slot> slots_;

  bool holds_ = false;  // the consumer has the batch of ticket handed_back_
  std::vector<std::thread> threads_;
};

}  // namespace libhvd
