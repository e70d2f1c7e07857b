// The C ABI of hvd/rates.h.
#include "session/training.hpp"

#include "c_api/c_api.hpp"
#include "c_api/data.hpp"
#include "common/text.hpp"
#include "io/shard.hpp"

#include <cmath>
#include <string>

#include <hvd/agree.h>

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

// The C ABI of hvd/agree.h.

using libhvd::CallOptions;
using libhvd::Communicator;
using libhvd::fail;
using libhvd::Result;
using libhvd::Session;

hvd_status hvd_average_metrics(double* values, size_t count, double weight,
                               const hvd_options* options) {
  return libhvd::collective(
      "hvd_average_metrics", libhvd::read_options(options),
      [=](Communicator& communicator, CallOptions read) {
        const bool missing = values == nullptr && count > 0;
        if (missing) read.fault = "hvd_average_metrics: a null pointer";
        return libhvd::average_metrics(communicator, {values, missing ? 0 : count}, weight, read);
      });
}

hvd_status hvd_early_stopping_update(hvd_early_stopping* state, double metric, int* is_best,
                                     int* stop, const hvd_options* options) {
  return libhvd::collective(
      "hvd_early_stopping_update", libhvd::read_options(options),
      [=](Communicator& communicator, CallOptions read) -> Result<void> {
        hvd_early_stopping nothing{};
        if (state == nullptr) read.fault = "hvd_early_stopping_update: a null pointer";
        auto& agreed = state == nullptr ? nothing : *state;
        HVD_TRY(const bool best, libhvd::agree_early_stopping(communicator, agreed, metric, read));
        if (is_best != nullptr) *is_best = best ? 1 : 0;
        if (stop != nullptr) *stop = agreed.patience > 0 && agreed.waited >= agreed.patience;
        return {};
      });
}

hvd_status hvd_watch_signal(int signum) {
  return libhvd::with_session("hvd_watch_signal",
                              [=](Session& session) { return session.signals().watch(signum); });
}

hvd_status hvd_agree_stop(uint64_t step, double seconds_needed, int wish, hvd_stop* stop,
                          const hvd_options* options) {
  return libhvd::collective_of_session(
      "hvd_agree_stop", libhvd::read_options(options),
      [=](Session& session, CallOptions read) -> Result<void> {
        if (stop == nullptr || stop->struct_size != sizeof *stop)
          read.fault = "hvd_agree_stop: struct_size must be sizeof(hvd_stop)";
        if (std::isnan(seconds_needed)) read.fault = "hvd_agree_stop: seconds_needed is NaN";
        const libhvd::Notice notice = session.page().notice();
        libhvd::StopSigns signs;
        signs.signum = libhvd::SignalWatch::came();
        signs.notice = (notice.bits & HVD_NOTICE_STOP) != 0 && step >= notice.stop_at_step;
        signs.seconds_left = session.seconds_left();
        signs.time = signs.seconds_left < seconds_needed;
        signs.wish = wish != 0;
        HVD_TRY(*stop, libhvd::agree_stop(session.communicator(), signs, read));
        session.signals().agreed(stop->signum);
        // By its own wish a program stops at what is its end.
        if ((stop->reasons & ~HVD_STOP_WISH) != 0) session.page().set_had_to_stop();
        return {};
      });
}

hvd_status hvd_stop_text(const hvd_stop* stop, char* text, size_t size) {
  return libhvd::guard("hvd_stop_text", [=]() -> hvd_status {
    if (stop == nullptr || text == nullptr || size == 0)
      return libhvd::report(fail(HVD_ERROR_INVALID_ARGUMENT, "hvd_stop_text: nothing to write to"));
    libhvd::copy_text({text, size}, libhvd::describe_stop(*stop));
    return HVD_OK;
  });
}
