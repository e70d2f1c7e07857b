// Decisions that the ranks take together; hvd/agree.h says what they mean.
#pragma once

#include "base/result.hpp"
#include "collective/communicator.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <hvd/agree.h>
#include <hvd/rates.h>

namespace libhvd {

Result<void> average_metrics(Communicator& communicator, std::span<double> values, double weight,
                             CallOptions options);

// One value's effect; true when it is the best so far. The rule alone, without the other ranks.
bool update_early_stopping(hvd_early_stopping& state, double metric);

// Rank 0's state and metric, for all ranks.
Result<bool> agree_early_stopping(Communicator& communicator, hvd_early_stopping& state,
                                  double metric, CallOptions options);

// What one rank knows; and, with the greatest of each and the least time left, what all know.
struct StopSigns {
  int signum = 0;
  bool notice = false;
  bool time = false;
  bool wish = false;
  double seconds_left = 0;
};

Result<hvd_stop> agree_stop(Communicator& communicator, const StopSigns& own,
                            const CallOptions& options);

// "signal 15 (SIGTERM)"; "" without a reason.
std::string describe_stop(const hvd_stop& stop);

// Learning rates for many ranks: pure functions, see hvd/rates.h.

// All errors are HVD_ERROR_INVALID_ARGUMENT and name the argument.
Result<double> scale_rate(double rate, std::int64_t size, hvd_scaling scaling);
Result<double> warmup(double from, double to, std::int64_t step, std::int64_t steps);
Result<hvd_scaling> parse_scaling(std::string_view name);

// Null when there is no such scaling.
const char* scaling_name(hvd_scaling scaling);

}  // namespace libhvd
