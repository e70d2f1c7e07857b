#include "agent/status_pages.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace hvdrun {
namespace {

std::string read_text(const char* text, std::size_t capacity) {
  return {text, ::strnlen(text, capacity)};
}

std::uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

CollectiveStatus read_collective(std::uint32_t active, const char* name, std::uint64_t start_ns,
                                 std::uint64_t completed) {
  CollectiveStatus status;
  status.completed = completed;
  if (active == 0) return status;
  status.name = read_text(name, HVD_STATUS_NAME_SIZE);
  status.start_ns = start_ns;
  const auto now = monotonic_ns();
  if (start_ns != 0 && start_ns < now) status.seconds = static_cast<double>(now - start_ns) / 1e9;
  return status;
}

double seconds_of(std::uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e9;
}

// Returns how many epochs are over, and the latest of them.
std::pair<std::uint64_t, std::vector<EpochCounts>> read_epochs(const hvd_status_page& page) {
  const auto over = page.epochs_over;
  std::vector<EpochCounts> epochs;
  for (auto i = over - std::min<std::uint64_t>(over, HVD_STATUS_EPOCHS); i < over; ++i) {
    const auto& epoch = page.epochs[i % HVD_STATUS_EPOCHS];
    epochs.push_back({epoch.epoch, seconds_of(epoch.duration_ns), epoch.samples});
  }
  return {over, std::move(epochs)};
}

std::vector<MetricValue> read_metrics(const hvd_status_page& page) {
  std::vector<MetricValue> metrics;
  for (const auto& metric : page.metrics) {
    auto name = read_text(metric.name, HVD_STATUS_METRIC_NAME_SIZE);
    if (name.empty()) break;
    metrics.push_back({std::move(name), metric.value});
  }
  return metrics;
}

std::optional<std::uint64_t> epoch_of(const hvd_status_page& page) {
  if (page.epoch_begun == 0) return std::nullopt;
  return page.epoch;
}

off_t offset_of(std::size_t index) {
  return static_cast<off_t>(index * HVD_STATUS_DISTANCE);
}

// Makes room for the head of a page. It uses posix_fallocate(3), so that a full /dev/shm is an
// error here and not a SIGBUS later.
Result<void> make_room(const Fd& file, std::size_t index, const std::filesystem::path& path) {
  int error =
      ::ftruncate(file.get(), offset_of(index) + static_cast<off_t>(HVD_STATUS_DISTANCE)) == 0
          ? 0
          : errno;
  while (error == 0) {
    error = ::posix_fallocate(file.get(), offset_of(index), HVD_STATUS_HEAD_SIZE);
    if (error == 0) return {};
    if (error == EINTR) error = 0;
  }
  return fail_errno("no room for the ranks' status pages in " + path.string(), error);
}

// Orders the reads before it before those after it. The thread sanitizer does not know fences.
void order_reads() {
#ifndef __SANITIZE_THREAD__
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

}  // namespace

Result<StatusPages> StatusPages::create(const std::filesystem::path& folder, std::size_t count,
                                        std::uint32_t duties) {
  StatusPages pages;
  pages.path_ = folder / "status";
  pages.file_.reset(::open(pages.path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!pages.file_) return fail_errno("cannot make " + pages.path_.string(), errno);
  pages.duties_ = duties;
  for (std::size_t i = 0; i < count; ++i) HVD_CHECK(pages.add());
  return pages;
}

Result<void> StatusPages::add() {
  const auto index = notice_fds_.size();
  HVD_CHECK(make_room(file_, index, path_));
  hvd_status_page page{};
  page.magic = HVD_STATUS_MAGIC;
  page.version = HVD_STATUS_VERSION;
  page.page_size = HVD_STATUS_PAGE_SIZE;
  page.launcher_duties = duties_;
  if (::pwrite(file_.get(), &page, sizeof page, offset_of(index)) != sizeof page)
    return fail_errno("cannot write " + path_.string(), errno);
  Fd notice(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!notice) return fail_errno("cannot make an eventfd for a rank", errno);
  notice_fds_.push_back(std::move(notice));
  return {};
}

// The file itself gets no other name: linkat(2) takes none that has lost its last one.
Result<bool> StatusPages::restore() const {
  if (::access(path_.c_str(), F_OK) == 0) return false;
  const auto target = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(file_.get());
  ::unlink(path_.c_str());  // a link of an agent that has ended
  if (::symlink(target.c_str(), path_.c_str()) != 0)
    return fail_errno("cannot make " + path_.string(), errno);
  return true;
}

std::string StatusPages::location(std::size_t index) const {
  return path_.string() + "@" + std::to_string(offset_of(index));
}

// Reads a part of a page. What cannot be read, because a rank has truncated the file, is 0, as
// before libhvd's init.
void StatusPages::read_at(std::size_t index, std::size_t offset, void* into,
                          std::size_t size) const {
  const auto got = ::pread(file_.get(), into, size, offset_of(index) + static_cast<off_t>(offset));
  const auto whole = static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  std::memset(static_cast<char*>(into) + whole, 0, size - whole);
}

hvd_status_page StatusPages::copy(std::size_t index) const {
  hvd_status_page page;
  read_at(index, 0, &page, sizeof page);
  return page;
}

template <class Read>
auto StatusPages::read_guarded(std::size_t index, std::size_t sequence_offset,
                               const Read& read) const -> decltype(read(copy(index))) {
  // A section that was never written costs one read. Programs without libhvd never write one.
  const auto sequence = [&] {
    std::uint32_t number = 0;
    read_at(index, sequence_offset, &number, sizeof number);
    return number;
  };
  for (int attempt = 0; attempt < 8; ++attempt) {
    const auto before = sequence();
    if (before == 0) break;
    if (before % 2 != 0) continue;
    order_reads();
    auto value = read(copy(index));
    order_reads();
    if (sequence() == before) return value;
  }
  return {};
}

RankStatus StatusPages::read(std::size_t index) const {
  const auto page = copy(index);
  RankStatus status;
  status.step = page.step;
  status.epoch = page.epoch;
  status.blocking = read_guarded(
      index, offsetof(hvd_status_page, collective_sequence), [](const hvd_status_page& from) {
        return read_collective(from.collective_active, from.collective_name,
                               from.collective_start_ns, from.collectives);
      });
  std::tie(status.background, status.background_missing) = read_guarded(
      index, offsetof(hvd_status_page, background_sequence), [](const hvd_status_page& from) {
        auto collective = read_collective(from.background_active, from.background_name,
                                          from.background_start_ns, from.backgrounds);
        auto missing = collective.name.empty()
                           ? std::string()
                           : read_text(from.background_missing, HVD_STATUS_NAME_SIZE);
        return std::pair(std::move(collective), std::move(missing));
      });
  std::tie(status.last_error, status.error_of_peer) = read_guarded(
      index, offsetof(hvd_status_page, error_sequence), [](const hvd_status_page& from) {
        return std::pair(read_text(from.error_text, HVD_STATUS_ERROR_SIZE),
                         from.error_of_peer != 0);
      });
  return status;
}

RankProgress StatusPages::progress(std::size_t index) const {
  const auto page = copy(index);
  RankProgress progress;
  progress.called_init = page.attached != 0;
  progress.in_init = page.collective_active != 0 &&
                     read_text(page.collective_name, HVD_STATUS_NAME_SIZE) == "hvd_init";
  progress.epoch = epoch_of(page);
  progress.epochs = page.epochs_in_all;
  progress.step = page.step;
  progress.steps = page.steps_in_all;
  progress.samples = page.samples;
  progress.progress_ns = page.progress_ns;
  progress.waiting_ns = page.waiting_ns;
  if (progress.reports()) {
    const auto metrics =
        read_guarded(index, offsetof(hvd_status_page, metrics_sequence), read_metrics);
    for (const auto& metric : metrics)
      if (metric.name == "loss") progress.loss = metric.value;
  }
  return progress;
}

RankCounters StatusPages::counters(std::size_t index) const {
  const auto page = copy(index);
  RankCounters counters;
  counters.joined = page.attached != 0;
  counters.steps = page.step;
  counters.samples = page.samples;
  counters.collective_seconds = seconds_of(page.collective_ns);
  counters.waiting_seconds = seconds_of(page.waiting_ns);
  counters.commits = page.commits;
  counters.had_to_stop = page.had_to_stop != 0;
  counters.epoch = epoch_of(page);
  counters.epochs_in_all = page.epochs_in_all;
  counters.steps_in_all = page.steps_in_all;
  if (page.progress_ns > page.first_samples_ns && page.samples > page.first_samples &&
      page.first_samples_ns != 0)
    counters.samples_per_second = static_cast<double>(page.samples - page.first_samples) /
                                  seconds_of(page.progress_ns - page.first_samples_ns);
  std::tie(counters.epochs_over, counters.epochs) =
      read_guarded(index, offsetof(hvd_status_page, epochs_sequence), read_epochs);
  counters.metrics = read_guarded(index, offsetof(hvd_status_page, metrics_sequence), read_metrics);
  return counters;
}

RankFailure StatusPages::failure(std::size_t index) const {
  return read_guarded(index, offsetof(hvd_status_page, failure_sequence),
                      [&](const hvd_status_page& from) {
                        RankFailure failure;
                        if (from.failure_ns == 0) return failure;
                        failure.reported = true;
                        if (from.failure_length != 0) {
                          std::array<char, HVD_STATUS_FAILURE_SIZE> text;
                          read_at(index, HVD_STATUS_HEAD_SIZE, text.data(), text.size());
                          failure.text = read_text(text.data(), text.size());
                        }
                        failure.because_of_peer = from.failure_because_of_peer != 0;
                        failure.before_stop = from.failure_ns < stop_ns_;
                        if (const auto now = monotonic_ns(); from.failure_ns < now)
                          failure.seconds_ago = seconds_of(now - from.failure_ns);
                        return failure;
                      });
}

void StatusPages::write_at(std::size_t index, std::size_t offset, std::uint32_t value) {
  [[maybe_unused]] const auto written =
      ::pwrite(file_.get(), &value, sizeof value, offset_of(index) + static_cast<off_t>(offset));
}

void StatusPages::set_pid(std::size_t index, int pid) {
  write_at(index, offsetof(hvd_status_page, rank_pid), static_cast<std::uint32_t>(pid));
}

void StatusPages::ask_to_stop() {
  stop_ns_ = std::min(stop_ns_, monotonic_ns());
  ++notices_;
  for (std::size_t i = 0; i < notice_fds_.size(); ++i) {
    write_at(i, offsetof(hvd_status_page, notices), HVD_NOTICE_STOP);
    write_at(i, offsetof(hvd_status_page, notice_sequence), notices_);
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(notice_fds_[i].get(), &one, sizeof one);
  }
}

RankCounters within(double seconds, RankCounters counters) {
  counters.collective_seconds = std::min(counters.collective_seconds, seconds);
  counters.waiting_seconds = std::min(counters.waiting_seconds, counters.collective_seconds);
  for (auto& epoch : counters.epochs) epoch.seconds = std::min(epoch.seconds, seconds);
  return counters;
}

}  // namespace hvdrun
