// The C ABI of hvd/rates.h.
#include "session/rates.hpp"

#include "c_api/give.hpp"
#include "io/shard.hpp"

#include <cstdint>
#include <string>

#include <hvd/rates.h>

using libhvd::fail;
using libhvd::give;
using libhvd::Result;

hvd_status hvd_scale_rate(double rate, int64_t size, hvd_scaling scaling, double* scaled) {
  return give("hvd_scale_rate", scaled, [=] { return libhvd::scale_rate(rate, size, scaling); });
}

hvd_status hvd_parse_scaling(const char* name, hvd_scaling* scaling) {
  return give("hvd_parse_scaling", scaling,
              [=] { return libhvd::parse_scaling(name == nullptr ? "" : name); });
}

const char* hvd_scaling_name(hvd_scaling scaling) {
  return libhvd::scaling_name(scaling);
}

hvd_status hvd_warmup(double from, double to, int64_t step, int64_t steps, double* rate) {
  return give("hvd_warmup", rate, [=] { return libhvd::warmup(from, to, step, steps); });
}

hvd_status hvd_local_batch(int64_t batch, int32_t rank, int32_t size, int64_t* samples) {
  return give("hvd_local_batch", samples, [=]() -> Result<std::int64_t> {
    if (batch < 1)
      return fail(HVD_ERROR_INVALID_ARGUMENT,
                  "batch is " + std::to_string(batch) + "; it must be at least 1");
    if (size < 1 || rank < 0 || rank >= size)
      return fail(HVD_ERROR_INVALID_ARGUMENT,
                  "there is no rank " + std::to_string(rank) + " of " + std::to_string(size));
    return libhvd::part_of(batch, rank, size).count;
  });
}
