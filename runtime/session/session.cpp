#include "session/session.hpp"

#include "base/process_environment.hpp"
#include "bootstrap/wireup_messages.hpp"
#include "common/clock.hpp"
#include "common/text.hpp"
#include "common/variables.h"
#include "session/session_handles.hpp"
#include "trace/clock_sync.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <string>
#include <utility>

namespace libhvd {
namespace {

constexpr std::int64_t kLongestTimeoutS = 24 * 60 * 60;

// Returns the status page, or an empty object if the launcher's page cannot be used. Error: the
// variable is not valid.
Result<StatusPage> attach_page(const Environment& environment) {
  auto page = StatusPage::attach(environment);
  if (page.ok() || page.error().status == HVD_ERROR_ENVIRONMENT) return page;
  // Without a page only the launcher's view of this rank is lost.
  std::fprintf(stderr, "hvd: continuing without a status page: %s\n", page.error().message.c_str());
  return StatusPage();
}

// Returns the number in a variable that other programs set. A value that is not a number is not the
// user's mistake, so it is treated as unset.
std::int64_t read_foreign_number(const Environment& environment, const char* name,
                                 std::int64_t otherwise) {
  auto number = read_integer(environment, name, 0, INT64_MAX);
  return number.ok() ? number->value_or(otherwise) : otherwise;
}

Result<JobInfo> read_job_info(const Environment& environment) {
  constexpr std::int64_t kMostRestarts = 1'000'000;
  JobInfo read;
  HVD_TRY(const auto restarts, read_integer(environment, HVD_ENV_RESTART_COUNT, 0, kMostRestarts));
  const std::int64_t by_launcher =
      restarts ? *restarts : read_foreign_number(environment, "TORCHELASTIC_RESTART_COUNT", 0);
  // sbatch(1), output environment variables.
  const std::int64_t by_slurm = read_foreign_number(environment, "SLURM_RESTART_COUNT", 0);
  read.restart_count = static_cast<int>(std::min(by_launcher + by_slurm, kMostRestarts));
  const std::int64_t end_time = read_foreign_number(environment, "SLURM_JOB_END_TIME", 0);
  if (end_time > 0) read.end_time = end_time;
  HVD_TRY(read.devices, read_devices(environment));
  read.host = host_name(environment);
  return read;
}

// Returns how long a host may be silent; 0: for ever.
Result<std::chrono::milliseconds> read_host_timeout(const Environment& environment,
                                                    std::chrono::milliseconds otherwise) {
  constexpr std::int64_t kLeastS = 2;  // a bridge sends at least once a second
  HVD_TRY(const auto seconds, read_integer(environment, HVD_ENV_HOST_TIMEOUT, 0, kLongestTimeoutS));
  if (!seconds) return otherwise;
  return std::chrono::milliseconds(
      std::chrono::seconds(*seconds == 0 ? 0 : std::max(*seconds, kLeastS)));
}

// When a rank joined. How many rounds it had taken part in comes first: whoever joined after it had
// got a result to which others gave zeros has a larger number, but clocks of two hosts are known
// only to half the time of a message and its answer.
struct JoinTime {
  std::uint64_t rounds;
  std::int64_t at_ns;                                 // by rank 0's clock
  auto operator<=>(const JoinTime&) const = default;  // NOLINT: not a pointer
};

}  // namespace

Result<std::unique_ptr<Session>> Session::open(const Environment& environment,
                                               const StartOptions& wanted,
                                               const ProcessParts& process,
                                               std::shared_ptr<void>& lasting) {
  BootstrapOptions options;
  options.ranks = wanted.ranks;
  options.starts = process.starts;
  HVD_TRY(const auto seconds,
          read_integer(environment, HVD_ENV_START_TIMEOUT, 1, kLongestTimeoutS));
  if (seconds) options.timeout = std::chrono::seconds(*seconds);
  HVD_TRY(JobInfo job_info, read_job_info(environment));
  HVD_TRY(job_info.engine, read_engine_settings(environment));
  HVD_TRY(const auto reproducible, read_integer(environment, HVD_ENV_REPRODUCIBLE, 0, 1));
  job_info.reproducible = reproducible == 1;
  HVD_TRY(const auto direct_reads, read_integer(environment, HVD_ENV_DIRECT_READS, 0, 1));
  job_info.direct_reads = direct_reads != 0;
  WireupOptions& wireup_options = job_info.wireup;
  wireup_options.timeout = options.timeout / 2;
  HVD_TRY(wireup_options.silence, read_host_timeout(environment, wireup_options.silence));
  HVD_TRY(const TimelineOptions timeline, read_timeline_options(environment));
  HVD_TRY(StatusPage page, attach_page(environment));
  // Shows the launcher that this rank waits here for ranks that have not started. Not with some
  // ranks only: the launcher would report the ranks that do not take part as missing.
  if (!wanted.ranks) page.begin_collective("hvd_init", nullptr, monotonic_ns());
  HVD_TRY(auto bootstrap, open_bootstrap(environment, options));
  lasting = bootstrap->lasting();
  HVD_TRY(Wireup wireup, wire_up(*bootstrap, environment, wireup_options));
  if (!wanted.ranks) page.end_collective(false, 0, 0);
  std::unique_ptr<Session> session(new Session(environment, process, std::move(bootstrap),
                                               std::move(wireup), std::move(page), job_info,
                                               timeline));
  session->some_ranks_ = wanted.ranks.has_value();
  const EngineSettings& engine = session->job_info_.engine;
  if (engine.autotune && !engine.autotune_log.empty() && session->topology_.rank == 0) {
    HVD_TRY(auto log, AutotuneLog::open(engine.autotune_log));
    session->autotune_log_ = std::move(log);
  }
  if (!timeline.path.empty())
    HVD_CHECK(session->timeline_.start(session->communicator_, timeline.path));
  HVD_CHECK(session->add_first_process_sets(wanted));
  return session;
}

Session::Session(const Environment& environment, const ProcessParts& process,
                 std::unique_ptr<Bootstrap> bootstrap, Wireup wireup, StatusPage page,
                 JobInfo job_info, const TimelineOptions& timeline)
    : environment_(environment),
      bootstrap_(std::move(bootstrap)),
      topology_(wireup.topology),
      page_(std::move(page)),
      communicator_(wireup.segment, topology_.rank, wireup.streams, process.memory),
      timeline_(topology_.node_rank, job_info.host, timeline),
      call_trace_(*timeline_.recorder()),
      first_engine_(process.first_engine),
      bridge_(std::move(wireup.bridge)),
      streams_(std::move(wireup.streams)),
      mpi_(wireup.mpi),
      job_info_(std::move(job_info)) {
  if (job_info_.reproducible) communicator_.make_reproducible();
  if (!job_info_.direct_reads) communicator_.refuse_direct_reads();
  watch_waits();
}

EngineOptions Session::engine_options(std::int32_t process_set) {
  EngineOptions options{.settings = job_info_.engine,
                        .listener = make_listener(),
                        .device_listener = make_listener()};
  options.before_handles = Generations::before_handles(first_engine_ + process_set);
  // One search at a time: several would disturb each other's times.
  if (process_set != 0) options.settings.autotune = false;
  if (process_set <= kMostProcessSets) {  // later ones are not in the timeline
    options.recorder = timeline_.recorder();
    options.process_set = static_cast<std::uint16_t>(process_set);
  }
  return options;
}

// If the launcher reports long waits, the ranks do not report them.
StallListener Session::make_listener() {
  const int own = ++last_listener_;
  StallListener listener;
  if (page_.launcher_reports_stalls()) listener.report = [](const std::string&) {};
  if (!page_) return listener;
  listener.show = [this, own](const std::string& kind, const std::string& name,
                              std::uint64_t since_ns, const std::string& missing) {
    const std::lock_guard lock(background_);
    if (showing_ && showing_ != own) return;
    showing_ = own;
    page_.set_background(kind, name.c_str(), since_ns, missing);
  };
  listener.clear = [this, own](bool completed) {
    const std::lock_guard lock(background_);
    if (showing_ != own) return;
    showing_.reset();
    page_.clear_background(completed);
  };
  return listener;
}

// Shows the ranks that a blocking call waits for. Without this the launcher reports all ranks of
// the job that are not in the call, which is wrong if only some ranks have started together.
void Session::show_missing(const std::vector<int>& missing) {
  const std::lock_guard lock(background_);
  if (showing_ && showing_ != kProgramsOrder) return;
  showing_ = kProgramsOrder;
  page_.set_missing(fold_ranks(numbers_of(communicator_, missing)));
}

void Session::clear_missing() {
  const std::lock_guard lock(background_);
  if (showing_ != kProgramsOrder) return;
  showing_.reset();
  page_.clear_background(false);  // the call itself reports that it was completed
}

// Returns how many rounds this rank's engines have completed.
std::uint64_t Session::rounds_in_background() const {
  const std::lock_guard lock(engines_);
  std::uint64_t rounds = engine_ ? engine_->rounds() : 0;
  for (const auto& [number, set] : process_sets_) {
    if (set->engine()) rounds += set->engine()->rounds();
  }
  return rounds;
}

// Watches the calls in the program's order for waits and stalls. The engines watch their own calls.
void Session::watch_waits() {
  const auto look = [this, watch = StallWatch(job_info_.engine, make_listener()), reported = false,
                     rounds = std::uint64_t{0}, quiet_since = std::uint64_t{0}](
                        const std::string& what, std::uint64_t waited_ns) mutable {
    const std::uint64_t now = monotonic_ns();
    if (const std::uint64_t done = rounds_in_background(); done != rounds) {
      rounds = done;
      quiet_since = now;
    }
    const bool due = watch.due(waited_ns);
    reported = reported && due;
    if (!due && !watch.over(waited_ns) && !watch.shows(waited_ns)) return;
    const std::vector<int> missing = communicator_.absent();
    if (some_ranks_ && shown_.shows_call() && watch.shows(waited_ns)) show_missing(missing);
    std::vector<int> waiting = communicator_.waiting();
    if (waiting.empty()) {  // all ranks here have joined; the others may be busy in the background
      for (int rank = 0; rank < communicator_.size(); ++rank) {
        if (!std::binary_search(missing.begin(), missing.end(), rank)) waiting.push_back(rank);
      }
      waited_ns = std::min(waited_ns, now - quiet_since);
    }
    if (missing.empty() || waiting.front() != communicator_.rank()) return;
    if (watch.due(waited_ns) && !std::exchange(reported, true))
      watch.report({{what, numbers_of(communicator_, missing)}}, waited_ns);
    if (watch.over(waited_ns)) communicator_.abort_job(FailureKind::stalled, missing.front());
  };
  communicator_.on_long_wait(look);
  communicator_.on_wait([this] { shown_.show_call(); });
  communicator_.on_device_wait(
      [stalls = DeviceStallWatch(communicator_, job_info_.engine, make_listener())](
          const auto& oldest) mutable { stalls.look(oldest); });
}

void Session::close_in_child() {
  if (bridge_) bridge_->close_in_child();
  for (const auto& streams : streams_) {
    if (streams) streams->close_in_child();
  }
  for (const auto& [number, set] : process_sets_) set->close_in_child();
}

double Session::seconds_left() const {
  const double by_launcher = page_.notice().seconds_left;
  if (!job_info_.end_time) return by_launcher;
  const auto now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch());
  return std::min(by_launcher, static_cast<double>(*job_info_.end_time) - now.count());
}

Result<std::shared_ptr<Engine>> Session::engine(std::int32_t process_set) {
  if (process_set != 0) {
    HVD_TRY(const auto set, find_process_set(process_set));
    if (set->engine() == nullptr)
      return fail(HVD_ERROR_INVALID_ARGUMENT, name_of(static_cast<std::size_t>(topology_.rank)) +
                                                  " is not in process set " +
                                                  std::to_string(process_set));
    return set->engine();
  }
  const std::lock_guard lock(engines_);
  if (!engine_) {
    auto started = attempt([this] {
      EngineOptions options = engine_options(0);
      options.autotune_log = std::exchange(autotune_log_, std::nullopt);
      return Engine::start(communicator_.second(), std::move(options));
    });
    // The others may wait for this rank in their engines.
    if (!started.ok()) communicator_.abort_job(FailureKind::broken, communicator_.rank());
    HVD_TRY(engine_, std::move(started));
  }
  return engine_;
}

Result<std::shared_ptr<ProcessSet>> Session::find_process_set(std::int32_t process_set) const {
  const std::lock_guard lock(engines_);
  const auto found = process_sets_.find(process_set);
  const bool removed = process_set > 0 && process_set <= last_process_set_;
  if (found == process_sets_.end() && removed)
    return fail(HVD_ERROR_NOT_INITIALIZED,
                "process set " + std::to_string(process_set) + " was removed");
  if (found == process_sets_.end())
    return fail(HVD_ERROR_INVALID_ARGUMENT,
                "there is no process set " + std::to_string(process_set));
  return found->second;
}

// Makes the process sets of the start. If ranks want different sets, or one rank's are not valid,
// all ranks return the error before any set is made.
Result<void> Session::add_first_process_sets(const StartOptions& wanted) {
  std::string own;
  for (const std::vector<int>& ranks : wanted.process_sets) own += '{' + encode_ranks(ranks) + '}';
  if (!wanted.fault.empty()) own = '!' + wanted.fault;
  HVD_TRY(const auto sets, exchange_texts(communicator_, own, {.name = "hvd_init"}));
  for (std::size_t rank = 0; rank < sets.size(); ++rank) {
    if (sets[rank].starts_with('!'))
      return fail(HVD_ERROR_INVALID_ARGUMENT, name_of(rank) + ": " + sets[rank].substr(1));
  }
  const auto show = [&](std::size_t rank) {
    return (sets[rank].empty() ? "none" : sets[rank]) + " on " + name_of(rank);
  };
  for (std::size_t rank = 1; rank < sets.size(); ++rank) {
    if (sets[rank] != sets[0])
      return fail(HVD_ERROR_MISMATCH, "the process sets to start with differ: they are " + show(0) +
                                          " and " + show(rank));
  }
  for (const std::vector<int>& ranks : wanted.process_sets) HVD_CHECK(add_process_set(ranks));
  return {};
}

Result<std::int32_t> Session::add_process_set(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  HVD_TRY(const auto wanted,
          exchange_texts(communicator_, encode_ranks(ranks), {.name = "hvd_add_process_set"}));
  if (const auto wrong = check_process_set(wanted, communicator_)) return *wrong;
  const std::int32_t number = last_process_set_ + 1;
  auto set = ProcessSet::make(ranks, communicator_, environment_, job_info_.wireup, number,
                              engine_options(number));
  HVD_TRY(const auto outcomes,
          exchange_texts(communicator_, encode(set.ok() ? Error{HVD_OK, {}} : set.error()),
                         {.name = "hvd_add_process_set"}));
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    const Error error = decode_error(outcomes[rank]);
    if (error.status != HVD_OK) return with_context(name_of(rank), error);
  }
  const std::lock_guard lock(engines_);
  process_sets_.emplace(++last_process_set_, std::move(*set));
  return last_process_set_;
}

Result<void> Session::remove_process_set(std::int32_t process_set) {
  HVD_TRY(const auto wanted, exchange_texts(communicator_, std::to_string(process_set),
                                            {.name = "hvd_remove_process_set"}));
  for (std::size_t rank = 1; rank < wanted.size(); ++rank) {
    if (wanted[rank] != wanted[0])
      return fail(HVD_ERROR_MISMATCH, "hvd_remove_process_set: the ranks do not agree: it is " +
                                          wanted[0] + " on " + name_of(0) + " and " + wanted[rank] +
                                          " on " + name_of(rank));
  }
  HVD_TRY(const auto set, find_process_set(process_set));
  if (set->engine()) set->engine()->stop();
  HVD_CHECK(communicator_.barrier({.name = "hvd_remove_process_set"}));  // all have stopped
  device_calls_->forget(process_set);
  const std::lock_guard lock(engines_);
  process_sets_.erase(process_set);
  return {};
}

Result<std::vector<int>> Session::ranks_of(std::int32_t process_set) const {
  if (process_set != 0) {
    HVD_TRY(const auto set, find_process_set(process_set));
    return set->ranks();
  }
  std::vector<int> all(static_cast<std::size_t>(topology_.size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<std::int32_t> Session::process_set_numbers() const {
  std::vector<std::int32_t> numbers{0};
  const std::lock_guard lock(engines_);
  for (const auto& [number, set] : process_sets_) numbers.push_back(number);
  return numbers;
}

// Until all have joined, calls in the program's order are served here, the engines' by their
// threads.
Result<int> Session::join() {
  HVD_TRY(const auto all, engine(0));
  std::vector<std::shared_ptr<Engine>> engines{all};
  {
    const std::lock_guard lock(engines_);
    for (const auto& [number, set] : process_sets_) {
      if (set->engine()) engines.push_back(set->engine());
    }
  }
  JoinTime own{communicator_.calls() + all->rounds(), static_cast<std::int64_t>(monotonic_ns())};
  for (const auto& each : engines) each->join();
  for (bool joined = false; !joined;) {
    HVD_TRY(joined, communicator_.join());
  }
  for (const auto& each : engines) HVD_CHECK(each->wait_joined());
  const CallOptions options{.name = "hvd_join"};
  HVD_TRY(const auto clock, compare_clocks(communicator_, topology_.node_rank, options));
  own.at_ns += clock.own.offset.ns;
  std::vector<JoinTime> times(static_cast<std::size_t>(topology_.size));
  HVD_CHECK(communicator_.allgather(&own, 1, sizeof own, HVD_UINT8, times.data(), times.size(),
                                    nullptr, options));
  return static_cast<int>(std::max_element(times.begin(), times.end()) - times.begin());
}

std::optional<Error> Session::stop() {
  std::optional<Error> lost = communicator_.untold_loss();
  const auto stop_engine = [&](const std::shared_ptr<Engine>& engine) {
    if (!engine) return;
    engine->stop();
    if (!lost) lost = engine->untold_loss();
  };
  for (const auto& [number, set] : process_sets_) stop_engine(set->engine());
  stop_engine(engine_);
  if (!lost) return std::nullopt;
  return with_context("results of earlier calls on the GPU are lost", *lost);
}

Session::~Session() {
  process_sets_.clear();
  if (engine_) engine_->stop();
  timeline_.abandon();
  if (mpi_ && communicator_.find_failure()) mpi_->functions().abandon();
  communicator_.leave();
  bridge_.reset();
  page_.set_left(monotonic_ns());
}

}  // namespace libhvd
