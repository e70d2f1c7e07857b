// Reads a source in the order of a shard, epoch after epoch, on threads in the background; see
// hvd/data.h. One owner; its functions are called by one thread at a time.
#pragma once

#include "base/error.hpp"
#include "io/batch.hpp"
#include "io/loader.hpp"
#include "io/pipeline.hpp"
#include "io/shard.hpp"
#include "io/source.hpp"

#include <cstdint>
#include <memory>

#include <sys/types.h>

namespace libhvd {

struct ReaderOptions {
  int threads = 2;   // 1 ... 1024
  int prefetch = 4;  // 1 ... 65536
  bool cache = false;
  Decode decode = nullptr;
};

// In a forked child the threads do not exist. There every call returns HVD_ERROR_FORKED, and the
// destructor frees nothing.
class Reader {
 public:
  // `shard.samples` is 0 or the source's number. Error: impossible options; no memory for the
  // order.
  static Result<Reader> open(std::shared_ptr<const Source> source, const ShardOptions& shard,
                             ReaderOptions options);
  ~Reader();
  Reader(Reader&&) = default;
  Reader& operator=(Reader&&) = delete;

  std::int64_t steps() const { return steps_; }
  // Returns the next batch, valid until the next call; once after an epoch's last step returns
  // nullptr. Error: this step cannot be read; the next call returns the one after it.
  Result<const Batch*> next();
  // Continues at a step, 0 … the epoch's steps. Error: no such step; the position is unchanged.
  Result<void> seek(std::int64_t epoch, std::int64_t step);
  // Divides the batches among other ranks, from the next step on. Error: these numbers are
  // impossible with the options; nothing changes.
  Result<void> divide_among(int size, int rank);

 private:
  Reader(std::unique_ptr<Loader> loader, const ShardOptions& shard, const ReaderOptions& options);
  Result<void> begin(std::int64_t epoch, std::int64_t step);

  ShardOptions shard_options_;
  int threads_;
  int prefetch_;
  std::int64_t steps_ = 0;
  std::int64_t epoch_ = 0;  // of the next step
  std::int64_t step_ = 0;   // the next one
  pid_t owner_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<Pipeline> pipeline_;  // null if an epoch has no steps
};

}  // namespace libhvd
