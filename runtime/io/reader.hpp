// The samples' bytes as they were read, kept from their first reading on.
#pragma once

#include "io/shard.hpp"
#include "io/source.hpp"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include <sys/types.h>

namespace libhvd {

// Any thread may call. What get() gives stays where it is as long as the cache lives. Its memory is
// 16 bytes a sample and what was read.
class SampleCache {
 public:
  explicit SampleCache(const Source& source);  // which must live longer

  Result<std::span<const std::byte>> get(std::int64_t sample);

 private:
  struct Entry {
    std::unique_ptr<std::byte[]> data;  // null: not read yet
    std::size_t size = 0;
  };

  const Source& source_;
  std::mutex mutex_;  // for entries_; not held while reading
  std::vector<Entry> entries_;
};

// Fills a batch: reads and decodes the samples of one rank in one step.

// Any thread may call, each with a batch and scratch memory of its own.
class Loader {
 public:
  // `decode` may be empty: then samples are delivered as they were read.
  Loader(std::shared_ptr<const Source> source, bool cache, Decode decode);

  // Fills indices, labels, data and offsets. Stops early, with whatever is there, once `stop` is
  // set. Error: names the sample. Throws std::bad_alloc.
  Result<void> load(const Shard& shard, std::int64_t step, const std::atomic<bool>& stop,
                    Batch& batch, ByteBuffer& scratch);

 private:
  Result<void> load_sample(std::int64_t sample, Batch& batch, ByteBuffer& scratch);
  Result<void> decode_sample(std::int64_t sample, std::span<const std::byte> data, Batch& batch);

  std::shared_ptr<const Source> source_;
  std::optional<SampleCache> cache_;
  Decode decode_;
};

// Background threads that keep the next batches ready.
//
// The batches of all epochs, from a position on, are numbered 0, 1, 2, …: their tickets. A thread
// takes the next ticket, as long as there is a free slot for it in a ring, and fills that slot; the
// consumer takes the slots in the order of the tickets. So threads finish in any order and the
// consumer sees one. The thread that meets a new epoch works out its order; the others wait.

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

// Reads a source in the order of a shard, epoch after epoch, in the background; see hvd/data.h.

struct ReaderOptions {
  int threads = 2;   // 1 ... 1024
  int prefetch = 4;  // 1 ... 65536
  bool cache = false;
  Decode decode = nullptr;
};

// One thread at a time. In a forked child its threads are not there: there everything is
// HVD_ERROR_FORKED, and the destructor gives nothing back.
class Reader {
 public:
  // shard.samples is 0 or the source's number.
  static Result<Reader> open(std::shared_ptr<const Source> source, const ShardOptions& shard,
                             ReaderOptions options);
  ~Reader();
  Reader(Reader&&) = default;
  Reader& operator=(Reader&&) = delete;

  std::int64_t steps() const { return steps_; }
  // Valid until the next call; null, once, after an epoch's last step. Error: this step cannot be
  // had; the next call gives the one after it.
  Result<const Batch*> next();
  Result<void> seek(std::int64_t epoch, std::int64_t step);

 private:
  Reader(std::unique_ptr<Loader> loader, const ShardOptions& shard, const ReaderOptions& options);
  Result<void> begin(std::int64_t epoch, std::int64_t step);

  ShardOptions shard_options_;
  int threads_;
  int prefetch_;
  std::int64_t steps_ = 0;
  std::int64_t step_ = 0;  // the next one
  pid_t owner_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<Pipeline> pipeline_;  // null: nothing to read
};

}  // namespace libhvd
