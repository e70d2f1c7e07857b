// Reads a source in the order of a shard, epoch after epoch, in the background; see hvd/data.h.
#pragma once

#include "data/batch.hpp"
#include "data/loader.hpp"
#include "data/pipeline.hpp"
#include "data/shard.hpp"
#include "data/source.hpp"

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
  Outcome seek(std::int64_t epoch, std::int64_t step);

 private:
  Reader(std::unique_ptr<Loader> loader, const ShardOptions& shard, const ReaderOptions& options);
  Outcome begin(std::int64_t epoch, std::int64_t step);

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
