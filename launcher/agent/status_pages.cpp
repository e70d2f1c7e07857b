#include "agent/status_pages.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

namespace hvdrun {
namespace {

template <class T>
T load(const T& field, std::memory_order order = std::memory_order_relaxed) {
  return std::atomic_ref<T>(const_cast<T&>(field)).load(order);
}

// What stands under a seqlock, as `read` has it; empty when the rank keeps writing it. It is read
// one atomic at a time, so that a torn copy is only wrong, never undefined, and then thrown away.
template <class Read>
auto read_guarded(const std::uint32_t& sequence, const Read& read) -> decltype(read()) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    const auto before = load(sequence, std::memory_order_acquire);
    if (before % 2 != 0) continue;
    auto copy = read();
    if (load(sequence) == before) return copy;
  }
  return {};
}

// Acquire: before the second look at the sequence.
std::string read_text(const char* text, std::size_t capacity) {
  std::string copy;
  for (std::size_t i = 0; i < capacity; ++i) {
    const char c = load(text[i], std::memory_order_acquire);
    if (c == '\0') break;
    copy += c;
  }
  return copy;
}

std::uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

CollectiveStatus read_collective(const std::uint32_t& active, const char* name,
                                 const std::uint64_t& start_ns, const std::uint64_t& completed) {
  CollectiveStatus status;
  status.completed = load(completed, std::memory_order_acquire);
  if (load(active, std::memory_order_acquire) == 0) return status;
  status.name = read_text(name, HVD_STATUS_NAME_SIZE);
  status.start_ns = load(start_ns, std::memory_order_acquire);
  const auto now = monotonic_ns();
  if (status.start_ns != 0 && status.start_ns < now)
    status.seconds = static_cast<double>(now - status.start_ns) / 1e9;
  return status;
}

double seconds_of(std::uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e9;
}

// How many are over, and the latest of them.
std::pair<std::uint64_t, std::vector<EpochCounts>> read_epochs(const hvd_status_page& page) {
  const auto over = load(page.epochs_over, std::memory_order_acquire);
  std::vector<EpochCounts> epochs;
  for (auto i = over - std::min<std::uint64_t>(over, HVD_STATUS_EPOCHS); i < over; ++i) {
    const auto& epoch = page.epochs[i % HVD_STATUS_EPOCHS];
    epochs.push_back({load(epoch.epoch, std::memory_order_acquire),
                      seconds_of(load(epoch.duration_ns, std::memory_order_acquire)),
                      load(epoch.samples, std::memory_order_acquire)});
  }
  return {over, std::move(epochs)};
}

std::vector<MetricValue> read_metrics(const hvd_status_page& page) {
  std::vector<MetricValue> metrics;
  for (const auto& metric : page.metrics) {
    auto name = read_text(metric.name, HVD_STATUS_METRIC_NAME_SIZE);
    if (name.empty()) break;
    metrics.push_back({std::move(name), load(metric.value, std::memory_order_acquire)});
  }
  return metrics;
}

// For the heads. posix_fallocate, so that a full /dev/shm is an error here and not a SIGBUS later.
Result<void> make_room(const Fd& file, std::size_t count, const std::filesystem::path& path) {
  int error =
      ::ftruncate(file.get(), static_cast<off_t>(count * HVD_STATUS_DISTANCE)) == 0 ? 0 : errno;
  for (std::size_t i = 0; i < count && error == 0; ++i) {
    do {
      error = ::posix_fallocate(file.get(), static_cast<off_t>(i * HVD_STATUS_DISTANCE),
                                HVD_STATUS_HEAD_SIZE);
    } while (error == EINTR);
  }
  if (error != 0)
    return fail_errno("no room for the ranks' status pages in " + path.string(), error);
  return {};
}

}  // namespace

Result<StatusPages> StatusPages::create(const std::filesystem::path& folder, std::size_t count,
                                        std::uint32_t duties) {
  StatusPages pages;
  pages.path_ = folder / "status";
  pages.size_ = count * HVD_STATUS_DISTANCE;
  const Fd file(::open(pages.path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return fail_errno("cannot make " + pages.path_.string(), errno);
  HVD_CHECK(make_room(file, count, pages.path_));
  void* mapping = ::mmap(nullptr, pages.size_, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapping == MAP_FAILED) return fail_errno("cannot map " + pages.path_.string(), errno);
  pages.mapping_ = static_cast<char*>(mapping);
  for (std::size_t i = 0; i < count; ++i) {
    auto* page = pages.page(i);
    page->magic = HVD_STATUS_MAGIC;
    page->version = HVD_STATUS_VERSION;
    page->page_size = HVD_STATUS_PAGE_SIZE;
    page->launcher_duties = duties;
    pages.notice_fds_.emplace_back(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!pages.notice_fds_.back()) return fail_errno("cannot make an eventfd for a rank", errno);
  }
  return pages;
}

StatusPages::StatusPages(StatusPages&& other) noexcept
    : path_(std::move(other.path_)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      size_(other.size_),
      notice_fds_(std::move(other.notice_fds_)),
      stop_ns_(other.stop_ns_) {}

StatusPages::~StatusPages() {
  if (mapping_ != nullptr) ::munmap(mapping_, size_);
}

hvd_status_page* StatusPages::page(std::size_t index) const {
  return reinterpret_cast<hvd_status_page*>(mapping_ + index * HVD_STATUS_DISTANCE);
}

std::string StatusPages::location(std::size_t index) const {
  return path_.string() + "@" + std::to_string(index * HVD_STATUS_DISTANCE);
}

RankStatus StatusPages::read(std::size_t index) const {
  const auto& from = *page(index);
  RankStatus status;
  status.step = load(from.step);
  status.epoch = load(from.epoch);
  status.blocking = read_guarded(from.collective_sequence, [&] {
    return read_collective(from.collective_active, from.collective_name, from.collective_start_ns,
                           from.collectives);
  });
  std::tie(status.background, status.background_missing) =
      read_guarded(from.background_sequence, [&] {
        auto collective = read_collective(from.background_active, from.background_name,
                                          from.background_start_ns, from.backgrounds);
        auto missing = collective.name.empty()
                           ? std::string()
                           : read_text(from.background_missing, HVD_STATUS_NAME_SIZE);
        return std::pair(std::move(collective), std::move(missing));
      });
  status.last_error = read_guarded(
      from.error_sequence, [&] { return read_text(from.error_text, HVD_STATUS_ERROR_SIZE); });
  return status;
}

RankCounters StatusPages::counters(std::size_t index) const {
  const auto& from = *page(index);
  RankCounters counters;
  counters.joined = load(from.attached) != 0;
  counters.steps = load(from.step);
  counters.samples = load(from.samples);
  counters.collective_seconds = seconds_of(load(from.collective_ns));
  counters.waiting_seconds = seconds_of(load(from.waiting_ns));
  std::tie(counters.epochs_over, counters.epochs) =
      read_guarded(from.epochs_sequence, [&] { return read_epochs(from); });
  counters.had_to_stop = load(from.had_to_stop) != 0;
  counters.metrics = read_guarded(from.metrics_sequence, [&] { return read_metrics(from); });
  return counters;
}

RankFailure StatusPages::failure(std::size_t index) const {
  auto& from = *page(index);
  return read_guarded(from.failure_sequence, [&] {
    RankFailure failure;
    // Without a text there may be no memory where it would be.
    if (load(from.failure_length, std::memory_order_acquire) == 0) return failure;
    failure.text = read_text(hvd_status_failure_text(&from), HVD_STATUS_FAILURE_SIZE);
    failure.because_of_peer = load(from.failure_because_of_peer, std::memory_order_acquire) != 0;
    const auto told_ns = load(from.failure_ns, std::memory_order_acquire);
    failure.before_stop = told_ns < stop_ns_;
    if (const auto now = monotonic_ns(); told_ns < now)
      failure.seconds_ago = seconds_of(now - told_ns);
    return failure;
  });
}

void StatusPages::set_pid(std::size_t index, int pid) {
  std::atomic_ref(page(index)->rank_pid)
      .store(static_cast<std::uint32_t>(pid), std::memory_order_relaxed);
}

void StatusPages::ask_to_stop() {
  stop_ns_ = std::min(stop_ns_, monotonic_ns());
  for (std::size_t i = 0; i < notice_fds_.size(); ++i) {
    auto* to = page(i);
    std::atomic_ref(to->notices).fetch_or(HVD_NOTICE_STOP, std::memory_order_relaxed);
    std::atomic_ref(to->notice_sequence).fetch_add(1, std::memory_order_release);
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(notice_fds_[i].get(), &one, sizeof one);
  }
}

}  // namespace hvdrun
