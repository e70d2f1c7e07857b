// The C ABI of hvd/agree.h.
#include "session/agree.hpp"

#include "c_api/c_api.hpp"
#include "common/text.hpp"

#include <cmath>

#include <hvd/agree.h>

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
        if (stop != nullptr)
          *stop = agreed.patience > 0 && agreed.updates_since_best >= agreed.patience;
        return {};
      });
}

hvd_status hvd_watch_signal(int signum) {
  return libhvd::with_session("hvd_watch_signal",
                              [=](Session& session) { return session.signals().watch(signum); });
}

hvd_status hvd_agree_stop(uint64_t step, double seconds_needed, int requested, hvd_stop* stop,
                          const hvd_options* options) {
  return libhvd::collective_of_session(
      "hvd_agree_stop", libhvd::read_options(options),
      [=](Session& session, CallOptions read) -> Result<void> {
        if (stop == nullptr || stop->struct_size != sizeof *stop)
          read.fault = "hvd_agree_stop: struct_size must be sizeof(hvd_stop)";
        if (std::isnan(seconds_needed)) read.fault = "hvd_agree_stop: seconds_needed is NaN";
        const libhvd::Notice notice = session.page().notice();
        libhvd::StopSigns signs;
        signs.signum = libhvd::SignalWatch::highest_arrived();
        signs.notice = (notice.bits & HVD_NOTICE_STOP) != 0 && step >= notice.stop_at_step;
        signs.seconds_left = session.seconds_left();
        signs.time = signs.seconds_left < seconds_needed;
        signs.requested = requested != 0;
        HVD_TRY(*stop, libhvd::agree_stop(session.communicator(), signs, read));
        session.signals().set_agreed(stop->signum);
        // If only the program asked for it, this is the program's own end.
        if ((stop->reasons & ~HVD_STOP_REQUESTED) != 0) session.page().set_had_to_stop();
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
