// The C ABI of hvd/data.h: shards.
#include "c_api/data.hpp"
#include "c_api/give.hpp"
#include "io/shard.hpp"

#include <cstdint>
#include <utility>
#include <vector>

using libhvd::fail;
using libhvd::give;
using libhvd::guard;
using libhvd::null_pointer;
using libhvd::report;
using libhvd::Result;
using libhvd::with_context;

struct hvd_shard {
  libhvd::Shard shard;
  libhvd::JobsNumbers numbers;
  std::vector<std::int64_t> indices;  // of the last step asked for

  Result<void> follow() {
    return numbers.follow([this](int size, int rank) { return shard.divide_among(size, rank); });
  }
};

namespace libhvd {

// A caller's older struct may end before `size`; read_shard_options() has checked the rest.
JobsNumbers::JobsNumbers(const hvd_shard_options& given) : generation_(last_generation()) {
  const auto read = read_struct(&given, "hvd_shard_options");
  follows_ = read.ok() && read->size == 0;
}

Result<ShardOptions> read_shard_options(const hvd_shard_options* given) {
  HVD_TRY(const hvd_shard_options c, read_struct(given, "hvd_shard_options"));
  ShardOptions options;
  options.samples = c.samples;
  options.batch = c.batch;
  options.epoch = c.epoch;
  options.seed = c.seed;
  options.shuffle = c.shuffle != 0;
  options.remainder = c.remainder;
  options.rank = c.rank;
  options.size = c.size;
  if (c.size != 0) return options;
  options.rank = hvd_rank();
  options.size = hvd_size();
  if (options.rank < 0 || options.size < 0)
    return fail(HVD_ERROR_NOT_INITIALIZED,
                "rank and size were left to the job, but this is before hvd_init or after "
                "hvd_shutdown");
  return options;
}

}  // namespace libhvd

hvd_status hvd_shard_create(const hvd_shard_options* options, hvd_shard** shard) {
  return give("hvd_shard_create", shard, [=]() -> Result<hvd_shard*> {
    if (options == nullptr) return fail(HVD_ERROR_INVALID_ARGUMENT, "no options");
    HVD_TRY(const libhvd::ShardOptions read, libhvd::read_shard_options(options));
    HVD_TRY(libhvd::Shard made, libhvd::Shard::make(read));
    return new hvd_shard{std::move(made), libhvd::JobsNumbers(*options), {}};
  });
}

hvd_status hvd_shard_steps(const hvd_shard* shard, int64_t* steps) {
  return give("hvd_shard_steps", steps, [=]() -> Result<std::int64_t> {
    if (shard == nullptr) return fail(HVD_ERROR_INVALID_ARGUMENT, "no shard");
    HVD_CHECK(const_cast<hvd_shard*>(shard)->follow());
    return shard->shard.steps();
  });
}

hvd_status hvd_shard_step(hvd_shard* shard, int64_t step, const int64_t** indices, size_t* count) {
  constexpr auto kWhat = "hvd_shard_step";
  return guard(kWhat, [=]() -> hvd_status {
    if (shard == nullptr || indices == nullptr || count == nullptr)
      return report(null_pointer(kWhat));
    Result<void> outcome = shard->follow();
    if (outcome.ok()) outcome = shard->shard.indices(step, shard->indices);
    if (!outcome.ok()) return report(with_context(kWhat, outcome.error()));
    *count = shard->indices.size();
    *indices = shard->indices.empty() ? nullptr : shard->indices.data();
    return HVD_OK;
  });
}

hvd_status hvd_shard_batch_size(const hvd_shard* shard, int64_t step, int64_t* samples) {
  return give("hvd_shard_batch_size", samples, [=]() -> Result<std::int64_t> {
    if (shard == nullptr) return fail(HVD_ERROR_INVALID_ARGUMENT, "no shard");
    HVD_CHECK(const_cast<hvd_shard*>(shard)->follow());
    return shard->shard.batch_size(step);
  });
}

void hvd_shard_free(hvd_shard* shard) {
  delete shard;
}
