#include "trace/timeline.hpp"

#include "common/clock.hpp"
#include "common/variables.h"
#include "io/atomic_file.hpp"
#include "io/share_outcome.hpp"
#include "trace/clock_sync.hpp"
#include "trace/gather.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace libhvd {
namespace {

constexpr const char* kDynamic = "DYNAMIC";  // Horovod: the timeline starts later, by a call
constexpr AtomicFileOptions kFileOptions{.kind = "timeline"};

CallOptions named() {
  return {.name = "timeline"};
}

// Returns the absolute path after checking that a file can be created there, so that nothing is
// recorded in vain. It replaces plain files only: replacing a device would lose it.
Result<std::string> check_path(const std::string& path) {
  if (path.empty()) return fail(HVD_ERROR_INVALID_ARGUMENT, "the timeline's path is empty");
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  if (error) return fail(HVD_ERROR_SYSTEM, path + ": " + error.message());
  const auto status = std::filesystem::status(absolute, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    return fail(HVD_ERROR_INVALID_ARGUMENT,
                "cannot write the timeline to " + path + ": it is no plain file");
  HVD_CHECK(AtomicFile::create(absolute.string(), kFileOptions));
  return absolute.string();
}

// Returns rank 0's text on all ranks. Collective.
Result<std::string> share_text(Communicator& communicator, std::string text) {
  std::uint64_t size = text.size();
  HVD_CHECK(communicator.broadcast(&size, sizeof size, HVD_UINT8, 0, named()));
  text.resize(size);
  HVD_CHECK(communicator.broadcast(text.data(), text.size(), HVD_UINT8, 0, named()));
  return text;
}

// The timeline's file: head, events, tail.
class TraceFile {
 public:
  static Result<TraceFile> create(const std::string& path, int ranks, std::int64_t clock_error_ns) {
    HVD_TRY(AtomicFile file, AtomicFile::create(path, kFileOptions));
    const std::string head = trace_head(ranks, clock_error_ns);
    HVD_CHECK(file.write(head.data(), head.size()));
    return TraceFile(std::move(file));
  }

  // After the first error it writes nothing more, and commit() returns that error.
  void write(std::string_view events) {
    if (std::exchange(first_, false)) events.remove_prefix(1);  // the comma
    if (state_.ok()) state_ = file_.write(events.data(), events.size());
  }

  Result<void> commit() {
    const std::string tail = trace_tail();
    if (state_.ok()) state_ = file_.write(tail.data(), tail.size());
    if (state_.ok()) state_ = file_.commit();
    return state_;
  }

 private:
  explicit TraceFile(AtomicFile file) : file_(std::move(file)) {}

  AtomicFile file_;
  Result<void> state_;
  bool first_ = true;
};

// Writes the file with the events of all ranks. `written` gets rank 0's outcome, on all ranks.
// Collective. Error: the ranks could not meet.
Result<void> write_together(Communicator& communicator, const std::string& path, TraceText& text,
                            std::int64_t clock_error_ns, Result<void>& written) {
  std::optional<TraceFile> file;
  Result<void> own;
  if (communicator.rank() == 0) {
    auto created = TraceFile::create(path, communicator.size(), clock_error_ns);
    if (created.ok()) {
      file.emplace(std::move(*created));
    } else {
      own = created.error();
    }
  }
  HVD_CHECK(gather_text(
      communicator, [&] { return text.next(); },
      [&](std::string_view events) {
        if (file) file->write(events);
      }));
  if (file) own = file->commit();
  written = share_outcome(communicator, own, 0, named());
  return {};
}

// Returns the file that a rank writes by itself.
std::string own_path(const std::string& path, int rank) {
  return rank == 0 ? path : path + ".rank" + std::to_string(rank);
}

void write_alone(const std::string& path, int rank, int size, TraceText& text) {
  const std::string local_path = own_path(path, rank);
  const auto written = [&]() -> Result<void> {
    HVD_TRY(TraceFile file, TraceFile::create(local_path, size, 0));
    for (std::string events = text.next(); !events.empty(); events = text.next())
      file.write(events);
    return file.commit();
  }();
  if (written.ok()) {
    std::fprintf(stderr, "hvd: the timeline of rank %d is in %s\n", rank, local_path.c_str());
  } else {
    std::fprintf(stderr, "hvd: the timeline of rank %d is not complete: %s\n", rank,
                 written.error().message.c_str());
  }
}

// Prints on rank 0 how many events all ranks have dropped. Collective.
Result<void> print_dropped(Communicator& communicator, std::uint64_t own) {
  auto dropped = static_cast<std::int64_t>(own);
  HVD_CHECK(communicator.allreduce(&dropped, &dropped, 1, HVD_INT64, HVD_SUM, named()));
  if (dropped > 0 && communicator.rank() == 0) {
    std::fprintf(stderr,
                 "hvd: the timeline lacks the last %lld events, for which there was no room; "
                 "see " HVD_ENV_TIMELINE_MB "\n",
                 static_cast<long long>(dropped));
  }
  return {};
}

}  // namespace

Result<TimelineOptions> read_timeline_options(const Environment& environment) {
  constexpr std::int64_t kMostMegabytes = 64 * 1024;
  TimelineOptions options;
  std::string path = environment(HVD_ENV_TIMELINE).value_or("");
  if (path.empty()) {
    path = environment("HOROVOD_TIMELINE").value_or("");
    options.horovods_words = !path.empty();
  }
  const auto cycles = environment("HOROVOD_TIMELINE_MARK_CYCLES").value_or("");
  options.mark_cycles = !cycles.empty() && cycles != "0";
  if (path != kDynamic) options.path = path;
  HVD_TRY(const auto megabytes, read_integer(environment, HVD_ENV_TIMELINE_MB, 1, kMostMegabytes));
  if (megabytes) options.bytes = static_cast<std::size_t>(*megabytes) << 20;
  return options;
}

Result<void> Timeline::start(Communicator& communicator, const std::string& path) {
  Result<std::string> absolute = path;
  if (communicator.rank() == 0) absolute = check_path(path);
  Result<void> own;
  if (!absolute.ok()) own = absolute.error();
  if (running_) own = fail(HVD_ERROR_INVALID_ARGUMENT, "the timeline runs already");
  std::unique_ptr<TraceJournal> journal;
  const auto open_journal = [&](const std::string& at) -> Result<void> {
    HVD_TRY(journal, TraceJournal::create(own_path(at, communicator.rank())));
    return {};
  };
  if (own.ok() && communicator.rank() == 0) own = open_journal(*absolute);
  HVD_CHECK(share_outcome(communicator, own, 0, named()));
  HVD_TRY(const std::string shared_path, share_text(communicator, *absolute));
  if (communicator.rank() != 0) static_cast<void>(open_journal(shared_path));
  HVD_TRY(const ClockReading clock, compare_clocks(communicator, host_index_, named()));
  auto origin = static_cast<std::int64_t>(monotonic_ns());
  HVD_CHECK(communicator.broadcast(&origin, 1, HVD_INT64, 0, named()));
  RankView view;
  view.rank = communicator.rank();
  view.host = host_;
  view.started_ns = monotonic_ns();
  view.clock = ClockMap(clock.own);
  view.origin_ns = origin;
  view.horovods_words = options_.horovods_words;
  recorder_->start(options_.bytes, options_.mark_cycles);
  if (journal) journal->start(recorder_, view);
  running_.emplace(Running{shared_path, communicator.size(), std::move(view), clock.own,
                           clock.largest_error_ns, std::move(journal)});
  return {};
}

Timeline::Running Timeline::end() {
  recorder_->stop();
  Running ended = std::move(*running_);
  running_.reset();
  if (ended.journal) ended.journal->stop();
  return ended;
}

Result<LastArrivals> Timeline::meet(Communicator& communicator, Running& ended,
                                    const Recording& recording) const {
  HVD_CHECK(print_dropped(communicator, recording.dropped));
  HVD_TRY(const ClockReading clock, compare_clocks(communicator, host_index_, named()));
  ended.view.clock = ClockMap(ended.first, clock.own);
  ended.clock_error_ns = std::max(ended.clock_error_ns, clock.largest_error_ns);
  return LastArrivals::among(communicator, arrivals_of(recording, ended.view));
}

Result<void> Timeline::stop(Communicator& communicator) {
  if (!running_) return fail(HVD_ERROR_INVALID_ARGUMENT, "the timeline does not run");
  Running ended = end();
  Recording recording = recorder_->take();
  auto met = meet(communicator, ended, recording);
  TraceText text(std::move(recording), ended.view, met.ok() ? std::move(*met) : LastArrivals());
  Result<void> written;
  Result<void> together =
      met.ok() ? write_together(communicator, ended.path, text, ended.clock_error_ns, written)
               : Result<void>(met.error());
  if (together.ok() && written.ok() && ended.view.rank != 0 && ended.journal)
    ended.journal->remove();
  if (together.ok()) return written;
  text.rewind();
  write_alone(ended.path, ended.view.rank, ended.size, text);
  return together;
}

void Timeline::abandon() {
  if (!running_) return;
  const Running ended = end();
  TraceText text(recorder_->take(), ended.view, {});
  write_alone(ended.path, ended.view.rank, ended.size, text);
}

}  // namespace libhvd
