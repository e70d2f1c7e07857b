#include "session/session.hpp"

#include "bootstrap/wireup_messages.hpp"
#include "common/clock.hpp"
#include "common/text.hpp"
#include "session/session_handles.hpp"
#include "trace/clock_sync.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <string>
#include <utility>

namespace libhvd {
namespace {

// When a rank joined. How many rounds it had taken part in comes first: whoever joined after it had
// got a result to which others gave zeros has a larger number, but clocks of two hosts are known
// only to half the time of a message and its answer.
struct JoinTime {
  std::uint64_t rounds;
  std::int64_t at_ns;                                 // by rank 0's clock
  auto operator<=>(const JoinTime&) const = default;  // NOLINT: not a pointer
};

// Says on rank 0, once in a process, that no one has divided the data.
void warn_of_equal_gradients(int rank, int size) {
  static std::atomic<bool> has_warned{false};
  if (rank != 0 || has_warned.exchange(true)) return;
  std::fprintf(
      stderr,
      "hvd: warning: all %d ranks computed the same gradients in %zu steps, so they train on "
      "the same data; give each rank its part, with a sampler or a shard "
      "(docs/train/one-gpu-to-many.md, step 5); if it is on purpose, set "
      "HVD_DATA_CHECK_DISABLE=1\n",
      size, EqualGradients::kSteps);
}

}  // namespace

EngineOptions Session::engine_options(std::int32_t process_set) {
  EngineOptions options{.settings = job_info_.engine,
                        .listener = make_listener(),
                        .device_listener = make_listener()};
  options.before_handles = SessionHandles::before_handles(first_engine_ + process_set);
  // One search at a time: several would disturb each other's times.
  if (process_set != 0) options.settings.autotune = false;
  // Ranks of a set may be replicas that work on the same data on purpose.
  if (process_set == 0 && job_info_.engine.data_check)
    options.on_equal_gradients = [rank = topology_.rank, size = topology_.size] {
      warn_of_equal_gradients(rank, size);
    };
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
  // end_collectives() may have come before, and did not find it.
  if (link_ != nullptr && communicator_.segment()->failed()) (*set)->fail(FailureKind::over);
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
  if (link_ != nullptr) link_->set_on_over({});
  process_sets_.clear();
  if (engine_) engine_->stop();
  timeline_.abandon();
  if (mpi_ && communicator_.find_failure()) mpi_->functions().abandon();
  communicator_.leave();
  bridge_.reset();
  page_.set_left(monotonic_ns());
}

}  // namespace libhvd
