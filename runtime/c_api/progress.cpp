// The C ABI of hvd.h: how far the training is. Any thread. Each function writes to the status page,
// which the launcher reads, and marks steps and epochs in the timeline. Without a session they
// write to a page of their own mapping, for programs that do not call hvd_init.
#include "c_api/c_api.hpp"
#include "c_api/give.hpp"
#include "common/clock.hpp"

#include <cstdint>
#include <string>
#include <utility>

#include <hvd/hvd.h>

using libhvd::EventKind;
using libhvd::fail;
using libhvd::guard;
using libhvd::monotonic_ns;
using libhvd::process;
using libhvd::report;
using libhvd::Result;
using libhvd::SessionReader;
using libhvd::StatusPage;

namespace {

constexpr std::uint32_t kAllBits = HVD_PROGRESS_STEP | HVD_PROGRESS_STEPS | HVD_PROGRESS_SAMPLES |
                                   HVD_PROGRESS_EPOCH | HVD_PROGRESS_EPOCHS | HVD_PROGRESS_LOSS;

// Where a call writes.
struct Place {
  StatusPage& page;
  libhvd::Recorder* timeline = nullptr;  // null without a session
};

void set_step(const Place& place, std::uint64_t step, std::uint64_t now_ns) {
  place.page.set_step(step, now_ns);
  if (place.timeline != nullptr) place.timeline->mark(EventKind::step, step);
}

void set_epoch(const Place& place, std::uint64_t epoch, std::uint64_t now_ns) {
  place.page.set_epoch(epoch, now_ns);
  if (place.timeline != nullptr) place.timeline->mark(EventKind::epoch, epoch);
}

// Returns the page of a process without a session. A page that cannot be mapped is none, because a
// training must not fail for its progress. The caller holds the lock of SessionReader.
StatusPage& page_without_session() {
  auto& page = process().page_without_session;
  if (!page) {
    auto attached = StatusPage::attach_for_progress(libhvd::process_environment());
    page = attached.ok() ? std::move(*attached) : StatusPage();
  }
  return *page;
}

// Runs body: (const Place&) -> Result<void>.
template <class Body>
hvd_status with_place(const char* what, const Body& body) noexcept {
  return guard(what, [&]() -> hvd_status {
    if (process().forked) return report(libhvd::in_forked_child(what));
    const auto write = [&]() -> Result<void> {
      const SessionReader reader;
      auto* const session = reader.get();
      if (session == nullptr) return body(Place{page_without_session()});
      return body(Place{session->page(), session->timeline().recorder().get()});
    };
    return report(write());  // without the lock, which report() takes
  });
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

Result<void> write(const Place& place, const hvd_progress_values& values) {
  auto& page = place.page;
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
  if (has(values, HVD_PROGRESS_EPOCH) && !page.is_in_epoch(epoch)) set_epoch(place, epoch, now);
  if (has(values, HVD_PROGRESS_STEP)) set_step(place, static_cast<std::uint64_t>(values.step), now);
  if (has(values, HVD_PROGRESS_SAMPLES))
    page.add_samples(static_cast<std::uint64_t>(values.samples), now);
  return {};
}

}  // namespace

hvd_status hvd_progress(const hvd_progress_values* values) {
  return with_place("hvd_progress", [=](const Place& place) -> Result<void> {
    if (values == nullptr) return libhvd::null_pointer("hvd_progress");
    auto read = libhvd::read_struct(values, "hvd_progress_values");
    if (!read.ok()) return libhvd::with_context("hvd_progress", read.error());
    HVD_CHECK(check(*read));
    return write(place, *read);
  });
}

hvd_status hvd_set_step(uint64_t step) {
  return with_place("hvd_set_step", [=](const Place& place) -> Result<void> {
    set_step(place, step, monotonic_ns());
    return {};
  });
}

hvd_status hvd_set_epoch(uint64_t epoch) {
  return with_place("hvd_set_epoch", [=](const Place& place) -> Result<void> {
    set_epoch(place, epoch, monotonic_ns());
    return {};
  });
}

hvd_status hvd_add_samples(uint64_t samples) {
  return with_place("hvd_add_samples", [=](const Place& place) -> Result<void> {
    place.page.add_samples(samples, monotonic_ns());
    return {};
  });
}

hvd_status hvd_set_metric(const char* name, double value) {
  return with_place("hvd_set_metric", [=](const Place& place) -> Result<void> {
    const Result<void> set = place.page.set_metric(name == nullptr ? "" : name, value);
    if (!set.ok()) return libhvd::with_context("hvd_set_metric", set.error());
    return {};
  });
}
