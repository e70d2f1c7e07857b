#include "session/status_page.hpp"

#include "common/clock.hpp"
#include "common/fd.hpp"
#include "common/mapping.hpp"
#include "common/text.hpp"
#include "common/variables.h"

#include <atomic>
#include <cerrno>
#include <charconv>
#include <span>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace libhvd {
namespace {

// Stores a value. With release, so that no reader sees what a seqlock guards before its odd number.
// (A fence would do as well, but the thread sanitizer does not know fences.)
template <class T>
void put(T& field, T value) {
  std::atomic_ref(field).store(value, std::memory_order_release);
}

template <class T>
T take(T& field) {
  return std::atomic_ref(field).load(std::memory_order_relaxed);
}

template <class T>
void add(T& field, T value) {
  put(field, static_cast<T>(take(field) + value));  // this is the only writer
}

// Stores a text byte by byte, so that a reader in the same process (a test) is no data race.
// Returns the rest of the field, from the end of the text.
std::span<char> put_text(std::span<char> field, std::string_view text) {
  const std::size_t length = std::min(text.size(), field.size() - 1);
  for (std::size_t i = 0; i < length; ++i) put(field[i], text[i]);
  put(field[length], '\0');
  return field.subspan(length);
}

// Stores "allreduce grad.3".
void put_title(std::span<char> field, std::string_view kind, const char* name) {
  const std::span<char> rest = put_text(field, kind);
  if (name != nullptr) put_text(put_text(rest, " "), name);
}

// The writer's side of a seqlock: the number is odd while this object lives.
class Writing {
 public:
  explicit Writing(std::uint32_t& sequence) : sequence_(sequence) {
    put(sequence_, take(sequence_) + 1);
  }
  ~Writing() { put(sequence_, take(sequence_) + 1); }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

 private:
  std::uint32_t& sequence_;
};

struct PageLocation {
  std::string path;
  std::uint64_t offset = 0;
};

Result<PageLocation> parse_location(const std::string& text) {
  const std::size_t at = text.rfind('@');
  PageLocation place;
  if (at != std::string::npos && at > 0) {
    place.path = text.substr(0, at);
    const char* end = text.data() + text.size();
    const auto [stop, code] = std::from_chars(text.data() + at + 1, end, place.offset);
    if (code == std::errc() && stop == end && place.offset % HVD_STATUS_HEAD_SIZE == 0) {
      return place;
    }
  }
  return fail(HVD_ERROR_ENVIRONMENT, HVD_ENV_STATUS "=\"" + text +
                                         "\" is not PATH@OFFSET with an offset that is a multiple "
                                         "of " +
                                         std::to_string(HVD_STATUS_HEAD_SIZE));
}

Result<Fd> open_file(const PageLocation& place) {
  Fd file(::open(place.path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) return fail_errno("cannot open the status page " + place.path, errno);
  return file;
}

Result<Mapping> map_page(const PageLocation& place, const Fd& file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return fail_errno("cannot stat " + place.path, errno);
  // A page past the end of the file would be a SIGBUS at the first store.
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size < HVD_STATUS_PAGE_SIZE || place.offset > size - HVD_STATUS_PAGE_SIZE) {
    return fail(HVD_ERROR_UNSUPPORTED,
                place.path + " is too short for a status page at " + std::to_string(place.offset));
  }
  void* address = ::mmap(nullptr, HVD_STATUS_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
                         file.get(), static_cast<off_t>(place.offset));
  if (address == MAP_FAILED) return fail_errno("cannot map the status page " + place.path, errno);
  Mapping mapping(address, HVD_STATUS_PAGE_SIZE);
  const auto& page = *reinterpret_cast<const hvd_status_page*>(mapping.data());
  if (page.magic != HVD_STATUS_MAGIC || page.version != HVD_STATUS_VERSION) {
    return fail(HVD_ERROR_UNSUPPORTED, place.path + " holds no status page of version " +
                                           std::to_string(HVD_STATUS_VERSION) +
                                           ": launcher and libhvd do not match");
  }
  return mapping;
}

// Returns whether this is the process that the launcher has started, or one that has joined the
// job. A failure of any other process does not end the rank.
bool is_the_rank(hvd_status_page& page) {
  const auto own = static_cast<std::uint32_t>(::getpid());
  if (take(page.pid) == own) return true;
  // Until the agent has written the pid that it started: a rank is the leader of its session.
  const std::uint32_t started = take(page.rank_pid);
  return started != 0 ? started == own : ::getsid(0) == ::getpid();
}

}  // namespace

Result<StatusPage> StatusPage::map(const Environment& environment) {
  const auto text = environment(HVD_ENV_STATUS);
  if (!text || text->empty()) return StatusPage();
  HVD_TRY(const PageLocation place, parse_location(*text));
  HVD_TRY(const Fd file, open_file(place));
  HVD_TRY(Mapping mapping, map_page(place, file));
  return StatusPage(std::move(mapping));
}

Result<StatusPage> StatusPage::attach_for_progress(const Environment& environment) {
  HVD_TRY(StatusPage status, map(environment));
  if (!status) return status;
  const bool is_of_another = take(status.page()->attached) != 0 &&
                             take(status.page()->pid) != static_cast<std::uint32_t>(::getpid());
  return is_of_another ? StatusPage() : std::move(status);
}

Result<StatusPage> StatusPage::attach(const Environment& environment) {
  HVD_TRY(StatusPage status, map(environment));
  if (!status) return status;
  put(status.page()->pid, static_cast<std::uint32_t>(::getpid()));
  put(status.page()->attached, 1u);
  return status;
}

Result<StatusPage> StatusPage::attach_for_failure(const Environment& environment) {
  const auto text = environment(HVD_ENV_STATUS);
  if (!text || text->empty())
    return fail(HVD_ERROR_UNSUPPORTED, "there is no launcher that would show it");
  HVD_TRY(const PageLocation place, parse_location(*text));
  HVD_TRY(const Fd file, open_file(place));
  HVD_TRY(Mapping mapping, map_page(place, file));
  StatusPage status(std::move(mapping));
  if (!is_the_rank(*status.page()))
    return fail(HVD_ERROR_FORKED,
                "this is a child of the process that the launcher has started; only that one may");
  // Without this a store could raise SIGBUS when memory is short.
  if (const int error =
          reserve_in_file(file.get(), place.offset + HVD_STATUS_HEAD_SIZE, HVD_STATUS_FAILURE_SIZE))
    return fail_errno("no room for it in " + place.path, error);
  return status;
}

void StatusPage::begin_collective(std::string_view kind, const char* name, std::uint64_t now_ns) {
  if (page() == nullptr) return;
  const Writing writing(page()->collective_sequence);
  put_title(page()->collective_name, kind, name);
  put(page()->collective_start_ns, now_ns);
  put(page()->collective_active, 1u);
}

void StatusPage::end_collective(bool completed, std::uint64_t duration_ns,
                                std::uint64_t waiting_ns) {
  if (page() == nullptr) return;
  const Writing writing(page()->collective_sequence);
  put(page()->collective_active, 0u);
  add(page()->collectives, std::uint64_t{completed});
  add(page()->collective_ns, duration_ns);
  add(page()->waiting_ns, waiting_ns);
}

void StatusPage::set_background(std::string_view kind, const char* name, std::uint64_t start_ns,
                                std::string_view missing) {
  if (page() == nullptr) return;
  const Writing writing(page()->background_sequence);
  put_title(page()->background_name, kind, name);
  put_text(page()->background_missing, missing);
  put(page()->background_start_ns, start_ns);
  put(page()->background_active, 1u);
}

void StatusPage::clear_background(bool completed) {
  if (page() == nullptr || take(page()->background_active) == 0) return;
  const Writing writing(page()->background_sequence);
  put(page()->background_active, 0u);
  add(page()->backgrounds, std::uint64_t{completed});
}

void StatusPage::set_missing(std::string_view missing) {
  if (page() == nullptr) return;
  const Writing writing(page()->background_sequence);
  put_text(page()->background_name, field_text(page()->collective_name));
  put_text(page()->background_missing, missing);
  put(page()->background_start_ns, take(page()->collective_start_ns));
  put(page()->background_active, 1u);
}

void StatusPage::set_step(std::uint64_t step, std::uint64_t now_ns) {
  if (page() == nullptr) return;
  put(page()->step, step);
  put(page()->progress_ns, now_ns);
}

std::uint64_t StatusPage::step() const {
  return page() == nullptr ? 0 : take(page()->step);
}

void StatusPage::set_steps_in_all(std::uint64_t steps) {
  if (page() != nullptr) put(page()->steps_in_all, steps);
}

void StatusPage::set_epoch(std::uint64_t epoch, std::uint64_t now_ns) {
  if (is_in_epoch(epoch)) return;
  if (page() == nullptr) {
    epoch_ = Epoch{epoch};
    return;
  }
  if (epoch_) close_epoch(now_ns);
  put(page()->epoch, epoch);
  put(page()->epoch_begun, 1U);
  epoch_ = Epoch{epoch, now_ns, take(page()->step), take(page()->samples)};
}

void StatusPage::close_epoch(std::uint64_t now_ns) {
  const std::uint64_t over = take(page()->epochs_over);
  const Writing writing(page()->epochs_sequence);
  hvd_status_epoch& place = page()->epochs[over % HVD_STATUS_EPOCHS];
  put(place.epoch, take(page()->epoch));
  put(place.duration_ns, now_ns - epoch_->start_ns);
  put(place.samples, take(page()->samples) - epoch_->samples);
  put(page()->epochs_over, over + 1);
  epoch_.reset();
}

void StatusPage::set_epochs_in_all(std::uint64_t epochs) {
  if (page() != nullptr) put(page()->epochs_in_all, epochs);
}

void StatusPage::add_samples(std::uint64_t samples, std::uint64_t now_ns) {
  if (page() == nullptr || samples == 0) return;
  add(page()->samples, samples);
  put(page()->progress_ns, now_ns);
  if (take(page()->first_samples_ns) != 0) return;
  put(page()->first_samples, take(page()->samples));
  put(page()->first_samples_ns, now_ns);
}

Result<void> StatusPage::set_metric(std::string_view name, double value) {
  if (name.empty()) return fail(HVD_ERROR_INVALID_ARGUMENT, "a metric needs a name");
  if (name.size() >= HVD_STATUS_METRIC_NAME_SIZE) {
    return fail(HVD_ERROR_INVALID_ARGUMENT,
                "the metric's name \"" + std::string(name) + "\" is longer than " +
                    std::to_string(HVD_STATUS_METRIC_NAME_SIZE - 1) + " bytes");
  }
  if (page() == nullptr) return {};
  for (hvd_status_metric& metric : page()->metrics) {
    const std::string_view known = field_text(metric.name);
    if (!known.empty() && known != name) continue;
    const Writing writing(page()->metrics_sequence);
    put(metric.value, value);
    if (known.empty()) put_text(metric.name, name);
    return {};
  }
  return fail(HVD_ERROR_INVALID_ARGUMENT, "no room for the metric \"" + std::string(name) +
                                              "\": there are " +
                                              std::to_string(HVD_STATUS_METRICS) + " others");
}

void StatusPage::set_error(std::string_view text, bool of_peer) {
  if (page() == nullptr) return;
  const Writing writing(page()->error_sequence);
  put_text(page()->error_text, text);
  const std::size_t most = HVD_STATUS_ERROR_SIZE - 1;
  put(page()->error_length, static_cast<std::uint32_t>(std::min(text.size(), most)));
  put(page()->error_of_peer, std::uint32_t{of_peer});
}

void StatusPage::set_failure(std::string_view text, bool because_of_peer, std::uint64_t now_ns) {
  if (page() == nullptr) return;
  const std::string whole = without_middle(text, HVD_STATUS_FAILURE_SIZE - 1);
  const Writing writing(page()->failure_sequence);
  put_text(std::span(hvd_status_failure_text(page()), HVD_STATUS_FAILURE_SIZE), whole);
  put(page()->failure_because_of_peer, std::uint32_t{because_of_peer});
  put(page()->failure_ns, now_ns);
  put(page()->failure_length, static_cast<std::uint32_t>(whole.size()));
}

void StatusPage::set_failed_exit(bool because_of_peer, std::uint64_t now_ns) {
  if (page() == nullptr || take(page()->failure_ns) != 0) return;
  const Writing writing(page()->failure_sequence);
  put(page()->failure_because_of_peer, std::uint32_t{because_of_peer});
  put(page()->failure_ns, now_ns);
}

void StatusPage::set_had_to_stop() {
  if (page() != nullptr) put(page()->had_to_stop, 1U);
}

void StatusPage::set_generation(std::uint32_t generation) {
  if (page() != nullptr) put(page()->generation, generation);
}

void StatusPage::set_commits(std::uint64_t commits) {
  if (page() != nullptr) put(page()->commits, commits);
}

// If the program has begun an epoch after its last one and did nothing in it, that is no epoch.
void StatusPage::set_left(std::uint64_t now_ns) {
  if (page() == nullptr) return;
  const std::uint64_t steps = take(page()->step);
  const std::uint64_t samples = take(page()->samples);
  const bool reports_progress = steps > 0 || samples > 0;
  if (epoch_ && (!reports_progress || steps != epoch_->step || samples != epoch_->samples))
    close_epoch(now_ns);
  epoch_.reset();
  put(page()->attached, 2u);
}

Notice StatusPage::notice() const {
  Notice notice;
  if (page() == nullptr) return notice;
  // The agent sets the bits last.
  notice.bits = std::atomic_ref(page()->notices).load(std::memory_order_acquire);
  if ((notice.bits & HVD_NOTICE_STOP) != 0) notice.stop_at_step = take(page()->stop_at_step);
  const std::uint64_t deadline = take(page()->deadline_ns);
  if ((notice.bits & HVD_NOTICE_TIME_LEFT) != 0 && deadline != 0) {
    notice.seconds_left =
        static_cast<double>(static_cast<std::int64_t>(deadline - monotonic_ns())) / 1e9;
  }
  return notice;
}

bool StatusPage::launcher_reports_stalls() const {
  return page() != nullptr && (take(page()->launcher_duties) & HVD_LAUNCHER_TELLS_STALLS) != 0;
}

}  // namespace libhvd
