#include "trace/timeline.hpp"

#include "base/clock.hpp"
#include "io/atomic_file.hpp"
#include "io/log.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <hvd_contract/environment.h>

namespace libhvd {

Result<std::vector<std::byte>> gather_bytes(Communicator& communicator,
                                            std::span<const std::byte> own,
                                            std::vector<std::size_t>* sizes) {
  const CallOptions options{.name = "timeline"};
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto size = static_cast<std::int64_t>(own.size());
  std::vector<std::int64_t> all(ranks);
  HVD_CHECK(communicator.allgather(&size, 1, 1, HVD_INT64, all.data(), ranks, nullptr, options));
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(std::accumulate(all.begin(), all.end(), std::int64_t{0})));
  if (!bytes.empty()) {
    HVD_CHECK(communicator.allgather(own.data(), own.size(), 1, HVD_UINT8, bytes.data(),
                                     bytes.size(), nullptr, options));
  }
  if (sizes != nullptr) sizes->assign(all.begin(), all.end());
  return bytes;
}

Outcome gather_pieces(Communicator& communicator, const std::function<std::string()>& next,
                      const std::function<void(std::string_view)>& sink) {
  while (true) {
    const std::string own = next();
    std::vector<std::size_t> sizes;
    HVD_TRY(const auto pieces, gather_bytes(communicator, std::as_bytes(std::span(own)), &sizes));
    if (pieces.empty()) return Done{};
    if (communicator.rank() != 0) continue;
    std::string_view left(reinterpret_cast<const char*>(pieces.data()), pieces.size());
    for (const std::size_t size : sizes) {
      if (size > 0) sink(left.substr(0, size));
      left.remove_prefix(size);
    }
  }
}

namespace {

constexpr const char* kDynamic = "DYNAMIC";  // Horovod's word for: not yet
constexpr AtomicFileOptions kFileOptions{.kind = "timeline"};

CallOptions named() {
  return {.name = "timeline"};
}

// That a file can be made there, before anything is recorded in vain. Only a plain file is
// replaced: a device would be lost.
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

// Rank 0's text, for all.
Result<std::string> share_text(Communicator& communicator, std::string text) {
  std::uint64_t size = text.size();
  HVD_CHECK(communicator.broadcast(&size, sizeof size, HVD_UINT8, 0, named()));
  text.resize(size);
  HVD_CHECK(communicator.broadcast(text.data(), text.size(), HVD_UINT8, 0, named()));
  return text;
}

// The file, with what stands around the events.
class TraceFile {
 public:
  static Result<TraceFile> create(const std::string& path, int ranks, std::int64_t clock_error_ns) {
    HVD_TRY(AtomicFile file, AtomicFile::create(path, kFileOptions));
    const std::string head = trace_head(ranks, clock_error_ns);
    HVD_CHECK(file.write(head.data(), head.size()));
    return TraceFile(std::move(file));
  }

  // After the first error nothing more is written, and commit() says it.
  void write(std::string_view events) {
    if (std::exchange(first_, false)) events.remove_prefix(1);  // the comma
    if (state_.ok()) state_ = file_.write(events.data(), events.size());
  }

  Outcome commit() {
    const std::string tail = trace_tail();
    if (state_.ok()) state_ = file_.write(tail.data(), tail.size());
    if (state_.ok()) state_ = file_.commit();
    return state_;
  }

 private:
  explicit TraceFile(AtomicFile file) : file_(std::move(file)) {}

  AtomicFile file_;
  Outcome state_ = Done{};
  bool first_ = true;
};

// Error: the ranks could not come together. Else `written` says how rank 0 fared, on all.
Outcome write_together(Communicator& communicator, const std::string& path, TraceText& text,
                       std::int64_t clock_error_ns, Outcome& written) {
  std::optional<TraceFile> file;
  Outcome own = Done{};
  if (communicator.rank() == 0) {
    auto created = TraceFile::create(path, communicator.size(), clock_error_ns);
    if (created.ok()) {
      file.emplace(std::move(*created));
    } else {
      own = created.error();
    }
  }
  HVD_CHECK(gather_pieces(
      communicator, [&] { return text.next(); },
      [&](std::string_view events) {
        if (file) file->write(events);
      }));
  if (file) own = file->commit();
  written = share_outcome(communicator, own, 0, named());
  return Done{};
}

void write_alone(const std::string& path, int rank, int size, TraceText& text) {
  const std::string local_path = path + ".rank" + std::to_string(rank);
  const auto written = [&]() -> Outcome {
    HVD_TRY(TraceFile file, TraceFile::create(local_path, size, 0));
    for (std::string events = text.next(); !events.empty(); events = text.next())
      file.write(events);
    return file.commit();
  }();
  if (written.ok()) {
    std::fprintf(stderr, "hvd: the timeline of rank %d is in %s\n", rank, local_path.c_str());
  } else {
    std::fprintf(stderr, "hvd: the timeline of rank %d is lost: %s\n", rank,
                 written.error().message.c_str());
  }
}

// On rank 0, of all ranks.
Outcome tell_dropped(Communicator& communicator, std::uint64_t own) {
  auto dropped = static_cast<std::int64_t>(own);
  HVD_CHECK(communicator.allreduce(&dropped, &dropped, 1, HVD_INT64, HVD_SUM, named()));
  if (dropped > 0 && communicator.rank() == 0) {
    std::fprintf(stderr,
                 "hvd: the timeline lacks the last %lld events, for which there was no room; "
                 "see " HVD_ENV_TIMELINE_MB "\n",
                 static_cast<long long>(dropped));
  }
  return Done{};
}

}  // namespace

Result<TimelineOptions> read_timeline_options(const Environment& environment) {
  constexpr std::int64_t kMostMegabytes = 64 * 1024;
  TimelineOptions options;
  std::string path = environment(HVD_ENV_TIMELINE).value_or("");
  if (path.empty()) path = environment("HOROVOD_TIMELINE").value_or("");
  if (path != kDynamic) options.path = path;
  HVD_TRY(const auto megabytes, read_integer(environment, HVD_ENV_TIMELINE_MB, 1, kMostMegabytes));
  if (megabytes) options.bytes = static_cast<std::size_t>(*megabytes) << 20;
  return options;
}

Outcome Timeline::start(Communicator& communicator, const std::string& path) {
  Result<std::string> absolute = path;
  if (communicator.rank() == 0) absolute = check_path(path);
  Outcome own = Done{};
  if (!absolute.ok()) own = absolute.error();
  if (running_) own = fail(HVD_ERROR_INVALID_ARGUMENT, "the timeline runs already");
  HVD_CHECK(share_outcome(communicator, own, 0, named()));
  HVD_TRY(const std::string shared_path, share_text(communicator, *absolute));
  HVD_TRY(const ClockReading clock, compare_clocks(communicator, host_index_));
  auto origin = static_cast<std::int64_t>(monotonic_ns());
  HVD_CHECK(communicator.broadcast(&origin, 1, HVD_INT64, 0, named()));
  RankView view;
  view.rank = communicator.rank();
  view.host = host_;
  view.started_ns = monotonic_ns();
  view.clock = ClockMap(clock.own);
  view.origin_ns = origin;
  running_ =
      Running{shared_path, communicator.size(), std::move(view), clock.own, clock.largest_error_ns};
  recorder_->start(bytes_);
  return Done{};
}

// What a rank needs of the others to write its part.
Result<LastArrivals> Timeline::meet(Communicator& communicator, Running& ended,
                                    const Recording& recording) const {
  HVD_CHECK(tell_dropped(communicator, recording.dropped));
  HVD_TRY(const ClockReading clock, compare_clocks(communicator, host_index_));
  ended.view.clock = ClockMap(ended.first, clock.own);
  ended.clock_error_ns = std::max(ended.clock_error_ns, clock.largest_error_ns);
  return LastArrivals::among(communicator, arrivals_of(recording, ended.view));
}

Outcome Timeline::stop(Communicator& communicator) {
  if (!running_) return fail(HVD_ERROR_INVALID_ARGUMENT, "the timeline does not run");
  recorder_->stop();
  Running ended = *std::exchange(running_, std::nullopt);
  Recording recording = recorder_->take();
  auto met = meet(communicator, ended, recording);
  TraceText text(std::move(recording), ended.view, met.ok() ? std::move(*met) : LastArrivals());
  Outcome written = Done{};
  Outcome together =
      met.ok() ? write_together(communicator, ended.path, text, ended.clock_error_ns, written)
               : Outcome(met.error());
  if (together.ok()) return written;
  text.rewind();
  write_alone(ended.path, ended.view.rank, ended.size, text);
  return together;
}

void Timeline::abandon() {
  if (!running_) return;
  recorder_->stop();
  const Running ended = *std::exchange(running_, std::nullopt);
  TraceText text(recorder_->take(), ended.view, {});
  write_alone(ended.path, ended.view.rank, ended.size, text);
}

}  // namespace libhvd
