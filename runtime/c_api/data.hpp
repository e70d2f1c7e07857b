// Shared by the files that implement hvd/data.h: the handle of a source, and the options of a
// shard. Any thread.
#pragma once

#include "base/error.hpp"
#include "c_api/process.hpp"
#include "io/shard.hpp"
#include "io/source.hpp"

#include <cstdint>
#include <memory>

#include <hvd/data.h>

// Readers share the source.
struct hvd_source {
  std::shared_ptr<const libhvd::Source> source;
};

namespace libhvd {

// The job's numbers, for what the caller has left them to: it follows them from one session to the
// next. A value.
class JobsNumbers {
 public:
  // `given`: the options of a shard.
  explicit JobsNumbers(const hvd_shard_options& given);

  // Calls divide: (int size, int rank) -> Result<void>, if the caller has left rank and size to the
  // job and there is another session than the last time. Returns its error.
  template <class Divide>
  Result<void> follow(const Divide& divide) {
    const std::uint64_t now = follows_ ? last_generation() : generation_;
    if (now == generation_) return {};
    const int rank = hvd_rank();
    const int size = hvd_size();
    if (rank < 0 || size < 0) return {};  // between two sessions
    HVD_CHECK(divide(size, rank));
    generation_ = now;
    return {};
  }

 private:
  bool follows_;
  std::uint64_t generation_;
};

// Returns the options of a shard, with the job's rank and size if the caller leaves them to it.
// `given` is not null. Error: its struct_size is wrong; the job is needed and not initialised.
Result<ShardOptions> read_shard_options(const hvd_shard_options* given);

}  // namespace libhvd
