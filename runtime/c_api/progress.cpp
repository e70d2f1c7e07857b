// The C ABI of hvd.h: how far the training is. Any thread. Each function writes to the status page,
// which the launcher reads, and marks steps and epochs in the timeline.
#include "c_api/c_api.hpp"
#include "c_api/give.hpp"
#include "common/clock.hpp"

#include <cstdint>
#include <string>

#include <hvd/hvd.h>

using libhvd::EventKind;
using libhvd::fail;
using libhvd::monotonic_ns;
using libhvd::Result;
using libhvd::Session;
using libhvd::with_session;

namespace {

constexpr std::uint32_t kAllBits = HVD_PROGRESS_STEP | HVD_PROGRESS_STEPS | HVD_PROGRESS_SAMPLES |
                                   HVD_PROGRESS_EPOCH | HVD_PROGRESS_EPOCHS | HVD_PROGRESS_LOSS;

void set_step(Session& session, std::uint64_t step, std::uint64_t now_ns) {
  session.page().set_step(step, now_ns);
  session.timeline().recorder()->mark(EventKind::step, step);
}

void set_epoch(Session& session, std::uint64_t epoch, std::uint64_t now_ns) {
  session.page().set_epoch(epoch, now_ns);
  session.timeline().recorder()->mark(EventKind::epoch, epoch);
}

bool has(const hvd_progress_values& values, std::uint32_t bit) {
  return (values.known & bit) != 0;
}

Result<void> check_count(const hvd_progress_values& values, std::uint32_t bit, const char* name,
                         std::int64_t count) {
  if (!has(values, bit) || count >= 0) return {};
  return fail(HVD_ERROR_INVALID_ARGUMENT, std::string("hvd_progress: ") + name + " is " +
                                              std::to_string(count) + "; it must not be negative");
}

// Checks that `part`, which is of `all`, is not larger, if both are known.
Result<void> check_part(const hvd_progress_values& values, std::uint32_t bits, const char* part,
                        std::int64_t done, const char* all, std::int64_t in_all) {
  if ((values.known & bits) != bits || done <= in_all) return {};
  return fail(HVD_ERROR_INVALID_ARGUMENT, std::string("hvd_progress: ") + part + " is " +
                                              std::to_string(done) + ", but " + all + " is only " +
                                              std::to_string(in_all));
}

Result<void> check(const hvd_progress_values& values) {
  if ((values.known & ~kAllBits) != 0 || values.reserved != 0)
    return fail(HVD_ERROR_INVALID_ARGUMENT,
                "hvd_progress: hvd_progress_values asks for what this version of libhvd cannot do");
  HVD_CHECK(check_count(values, HVD_PROGRESS_STEP, "step", values.step));
  HVD_CHECK(check_count(values, HVD_PROGRESS_STEPS, "steps", values.steps));
  HVD_CHECK(check_count(values, HVD_PROGRESS_SAMPLES, "samples", values.samples));
  HVD_CHECK(check_count(values, HVD_PROGRESS_EPOCH, "epoch", values.epoch));
  HVD_CHECK(check_count(values, HVD_PROGRESS_EPOCHS, "epochs", values.epochs));
  HVD_CHECK(check_part(values, HVD_PROGRESS_STEP | HVD_PROGRESS_STEPS, "step", values.step, "steps",
                       values.steps));
  return check_part(values, HVD_PROGRESS_EPOCH | HVD_PROGRESS_EPOCHS, "epoch", values.epoch,
                    "epochs", values.epochs);
}

Result<void> write(Session& session, const hvd_progress_values& values) {
  auto& page = session.page();
  // First what can fail, so that an error reports nothing.
  if (has(values, HVD_PROGRESS_LOSS)) {
    const Result<void> set = page.set_metric("loss", values.loss);
    if (!set.ok()) return libhvd::with_context("hvd_progress", set.error());
  }
  const std::uint64_t now = monotonic_ns();
  if (has(values, HVD_PROGRESS_STEPS))
    page.set_steps_in_all(static_cast<std::uint64_t>(values.steps));
  if (has(values, HVD_PROGRESS_EPOCHS))
    page.set_epochs_in_all(static_cast<std::uint64_t>(values.epochs));
  // Before the samples, which belong to it. Only a new one, so that the timeline has one mark for
  // it.
  const auto epoch = static_cast<std::uint64_t>(values.epoch);
  if (has(values, HVD_PROGRESS_EPOCH) && !page.is_in_epoch(epoch)) set_epoch(session, epoch, now);
  if (has(values, HVD_PROGRESS_STEP))
    set_step(session, static_cast<std::uint64_t>(values.step), now);
  if (has(values, HVD_PROGRESS_SAMPLES))
    page.add_samples(static_cast<std::uint64_t>(values.samples), now);
  return {};
}

}  // namespace

hvd_status hvd_progress(const hvd_progress_values* values) {
  return with_session("hvd_progress", [=](Session& session) -> Result<void> {
    if (values == nullptr) return libhvd::null_pointer("hvd_progress");
    auto read = libhvd::read_struct(values, "hvd_progress_values");
    if (!read.ok()) return libhvd::with_context("hvd_progress", read.error());
    HVD_CHECK(check(*read));
    return write(session, *read);
  });
}

hvd_status hvd_set_step(uint64_t step) {
  return with_session("hvd_set_step", [=](Session& session) -> Result<void> {
    set_step(session, step, monotonic_ns());
    return {};
  });
}

hvd_status hvd_set_epoch(uint64_t epoch) {
  return with_session("hvd_set_epoch", [=](Session& session) -> Result<void> {
    set_epoch(session, epoch, monotonic_ns());
    return {};
  });
}

hvd_status hvd_add_samples(uint64_t samples) {
  return with_session("hvd_add_samples", [=](Session& session) -> Result<void> {
    session.page().add_samples(samples, monotonic_ns());
    return {};
  });
}

hvd_status hvd_set_metric(const char* name, double value) {
  return with_session("hvd_set_metric", [=](Session& session) -> Result<void> {
    const Result<void> set = session.page().set_metric(name == nullptr ? "" : name, value);
    if (!set.ok()) return libhvd::with_context("hvd_set_metric", set.error());
    return {};
  });
}
