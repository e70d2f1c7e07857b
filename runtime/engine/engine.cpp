#include "engine/engine.hpp"

#include "base/thread.hpp"
#include "collective/element.hpp"
#include "common/clock.hpp"
#include "common/text.hpp"
#include "engine/fusion.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <tuple>
#include <utility>

namespace libhvd {
namespace {

constexpr std::size_t kMostProposed = 2000;  // names in a round; these always fit
// After this many calls in a row for which a thread waited, a thread is expected to wait for the
// next ones, too. The first call for which none does may stay unnoticed for two checks.
constexpr int kHabit = 8;
constexpr std::chrono::milliseconds kCheckAfter{1};  // that others drive
constexpr std::uint64_t kCheckNs = 20'000'000;       // for stalls

Error stopped() {
  return fail(HVD_ERROR_NOT_INITIALIZED, "hvd_shutdown was called before it was done");
}

// Returns whether all ranks have found the error together, before anything was written.
bool is_mistake(const Result<void>& outcome) {
  return !outcome.ok() && (outcome.error().status == HVD_ERROR_MISMATCH ||
                           outcome.error().status == HVD_ERROR_INVALID_ARGUMENT);
}

Error no_handle(std::int64_t handle) {
  return fail(HVD_ERROR_INVALID_ARGUMENT, "there is no handle " + std::to_string(handle));
}

}  // namespace

Engine::Engine(std::unique_ptr<Communicator> communicator, EngineOptions options)
    : communicator_(std::move(communicator)),
      settings_(options.settings),
      watch_(options.settings, std::move(options.listener)),
      trace_(std::move(options.recorder), options.process_set),
      last_handle_(options.before_handles),
      negotiation_(communicator_->size(), options.settings.cache_capacity),
      limits_(options.settings.fusion),
      autotune_log_(std::move(options.autotune_log)),
      equal_gradients_(options.on_equal_gradients ? communicator_->size() : 0),
      on_equal_gradients_(std::move(options.on_equal_gradients)) {
  if (settings_.autotune && communicator_->rank() == 0 && communicator_->size() > 1) {
    tuner_.emplace([this](std::uint8_t candidate, double score) {
      if (autotune_log_) autotune_log_->write(limits_of(candidate, settings_.fusion), score);
    });
  }
  communicator_->on_long_wait([this](const std::string&, std::uint64_t) { check_stalls(); });
  communicator_->on_device_wait(
      [stalls = DeviceStallWatch(*communicator_, settings_, std::move(options.device_listener))](
          const auto& oldest) mutable { stalls.look(oldest); });
}

Result<std::shared_ptr<Engine>> Engine::start(std::unique_ptr<Communicator> communicator,
                                              EngineOptions options) {
  std::shared_ptr<Engine> engine(new Engine(std::move(communicator), std::move(options)));
  HVD_TRY(engine->thread_, start_thread("runs collectives", [raw = engine.get()] { raw->run(); }));
  return engine;
}

Engine::~Engine() {
  stop();
}

void Engine::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  communicator_->interrupt();
  work_.notify_all();
  if (thread_.joinable()) thread_.join();
  {
    std::unique_lock lock(mutex_);  // a waiting thread may drive, and use the program's buffers
    changed_.wait(lock, [this] { return !driven_; });
  }
  fail_all(stopped());
  if (shown_) hide(false);
}

Result<std::int64_t> Engine::submit(Request request) {
  auto entry = std::make_shared<Pending>();
  entry->submitted_ns = trace_.submission_ns();
  std::unique_lock lock(mutex_);
  if (joined_) {
    return fail(HVD_ERROR_INVALID_ARGUMENT,
                title_of(request) + ": this rank has joined, and not all others yet");
  }
  entry->named = !request.name.empty();
  if (!entry->named) request.name = request.kind + " #" + std::to_string(++unnamed_[request.kind]);
  entry->hash = hash_name(request.name);
  if (const auto before = in_flight_.find(entry->hash);
      before != in_flight_.end() && before->second->forgotten)
    static_cast<void>(wait(lock, Entry(before->second)));
  entry->since_ns = monotonic_ns();
  entry->request = std::move(request);
  if (broken_) {
    entry->outcome = with_context(title_of(entry->request), *broken_);
  } else if (const auto [place, is_new] = in_flight_.emplace(entry->hash, entry); !is_new) {
    Pending& before = *place->second;
    if (!before.runs) before.request.options.fault = "it was submitted twice";
    return fail(HVD_ERROR_INVALID_ARGUMENT,
                title_of(before.request) + ": was submitted before, and is not done yet");
  } else {
    fresh_.push_back(entry);
    wake_driver();
  }
  handles_.emplace(++last_handle_, std::move(entry));
  return last_handle_;
}

// Wakes the thread that drives, or that should, because there is something to propose.
void Engine::wake_driver() {
  has_fresh_.store(true, std::memory_order_seq_cst);
  if (driven_) {
    communicator_->wake();
  } else if (!left_to_waiters_) {
    work_.notify_one();
  }
}

Result<bool> Engine::wait_for(std::int64_t handle, std::chrono::nanoseconds limit) {
  std::unique_lock lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return no_handle(handle);
  const Entry entry = found->second;
  if (!entry->outcome) {
    if (std::exchange(left_to_waiters_, false)) {  // this thread does not drive
      awaited_ = 0;
      work_.notify_one();
    }
    changed_.wait_for(lock, limit, [&] { return entry->outcome.has_value(); });
  }
  return entry->outcome.has_value();
}

std::pair<std::string, std::string> Engine::titles(std::int64_t handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return {};
  return {found->second->request.kind, found->second->request.name};
}

Result<void> Engine::wait(std::int64_t handle) {
  std::unique_lock lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return no_handle(handle);
  const Entry entry = found->second;
  handles_.erase(found);
  return wait(lock, entry);
}

void Engine::forget(std::int64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return;
  found->second->forgotten = true;
  handles_.erase(found);
}

// Drives until the collective is done, or sleeps while another thread drives. If the engine's
// thread drives, it takes over.
Result<void> Engine::wait(std::unique_lock<std::mutex>& lock, const Entry& entry) {
  while (!entry->outcome) {
    if (!driven_ && !stop_) {
      drive(lock, entry.get());
      continue;
    }
    if (by_own_thread_) {
      hands_over_.store(true, std::memory_order_seq_cst);
      communicator_->wake();
    }
    ++waiting_;
    changed_.wait(lock);
    --waiting_;
  }
  if (waiting_ == 0 && !driven_ && !left_to_waiters_ && busy()) work_.notify_one();
  return *entry->outcome;
}

// Runs rounds without the mutex; `until`: see run_rounds(). Then decides whether the engine's
// thread leaves the next ones to threads that wait.
void Engine::drive(std::unique_lock<std::mutex>& lock, const Pending* until) {
  driven_ = true;
  ++drives_;
  by_own_thread_ = until == nullptr;
  lock.unlock();
  run_rounds(until);
  lock.lock();
  driven_ = false;
  by_own_thread_ = false;
  const bool handed_over = hands_over_.exchange(false, std::memory_order_seq_cst);
  const bool awaited = until != nullptr ? negotiation_.ready().empty() : handed_over;
  awaited_ = awaited ? std::min(awaited_ + 1, kHabit) : 0;
  changed_.notify_all();
  const bool looked = std::exchange(left_to_waiters_, awaited_ == kHabit);
  if (looked != left_to_waiters_ || (!left_to_waiters_ && busy())) work_.notify_one();
}

void Engine::join() {
  const std::lock_guard lock(mutex_);
  join_ = std::make_shared<Pending>();
  if (broken_) {
    join_->outcome = *broken_;
    return;
  }
  joined_ = true;
  join_proposed_ = false;
  wake_driver();
}

Result<void> Engine::wait_joined() {
  std::unique_lock lock(mutex_);
  return wait(lock, join_);
}

void Engine::run() {
  std::unique_lock lock(mutex_);
  const auto due = [this] {
    return stop_ || left_to_waiters_ || (!driven_ && waiting_ == 0 && !broken_ && busy());
  };
  while (!stop_) {
    work_.wait(lock, due);
    if (left_to_waiters_) {
      check_that_others_drive(lock);
    } else if (!stop_) {
      drive(lock, nullptr);
    }
  }
}

// Sleeps for a while. If no thread has driven meanwhile, the engine's thread drives again.
void Engine::check_that_others_drive(std::unique_lock<std::mutex>& lock) {
  const std::uint64_t before = drives_;
  work_.wait_for(lock, kCheckAfter, [this] { return stop_ || !left_to_waiters_; });
  left_to_waiters_ = left_to_waiters_ && drives_ != before;
}

// Runs rounds while something is pending. `until`: the collective for which this thread waits;
// null: this is the engine's thread, which stops when another thread wants to drive.
void Engine::run_rounds(const Pending* until) {
  const bool own_thread = until == nullptr;
  const auto hands_over = [&] { return own_thread && hands_over_.load(std::memory_order_seq_cst); };
  while (!hands_over()) {
    {
      const std::lock_guard lock(mutex_);
      if (stop_ || broken_ || !busy() || (until != nullptr && may_leave(*until))) return;
    }
    try {
      Result<void> outcome;
      if (negotiation_.ready().empty()) {
        in_round_ = false;
        outcome = communicator_->wait_for_proposals([&] {
          check_stalls();
          return has_fresh_.load(std::memory_order_seq_cst) || hands_over();
        });
        if (outcome.ok() && hands_over()) return;
      }
      in_round_ = true;
      if (outcome.ok() && !stopping()) outcome = run_round();
      if (!outcome.ok()) fail_all(outcome.error());
      if (!outcome.ok() && shown_) hide(false);
    } catch (const std::exception& exception) {
      fail_all(fail(HVD_ERROR_SYSTEM, std::string("the engine: ") + exception.what()));
      communicator_->abort_job(FailureKind::broken, communicator_->rank());
    }
  }
}

// Returns whether a thread that waits for this may stop driving. First it runs the other ready
// collectives, because a training step waits for these too, and waking the engine's thread for them
// would delay all ranks. It does not run those of lower priority.
bool Engine::may_leave(const Pending& until) const {
  if (!until.outcome) return false;
  const auto& ready = negotiation_.ready();
  return ready.empty() || ready.front().priority < until.request.priority;
}

bool Engine::stopping() const {
  const std::lock_guard lock(mutex_);
  return stop_;
}

Result<void> Engine::run_round() {
  trace_.cycle();
  HVD_CHECK(exchange_proposals());
  if (!negotiation_.ready().empty()) execute_next();
  if (negotiation_.all_joined()) end_join();
  return {};
}

// Proposes what was submitted since the last round, as much as fits into one round, and applies the
// proposals of all ranks.
Result<void> Engine::exchange_proposals() {
  if (tuner_ && !tuner_->over()) tuner_->end_in_time(monotonic_ns());
  {
    const std::lock_guard lock(mutex_);
    names_.clear();
    for (const Entry& entry : fresh_) {
      if (names_.size() == kMostProposed) break;
      names_.push_back({entry->hash, entry->request.priority});
    }
    const bool joins = joined_ && !join_proposed_ && names_.size() == fresh_.size();
    const std::size_t proposed =
        negotiation_.encode(names_, joins, communicator_->max_proposal_bytes(), proposals_,
                            {.tuning = tuner_ ? tuner_->choice() : std::uint8_t{0},
                             .gradients = equal_gradients_.send()});
    join_proposed_ = join_proposed_ || joins;
    const auto end = fresh_.begin() + static_cast<std::ptrdiff_t>(proposed);
    proposing_.assign(std::make_move_iterator(fresh_.begin()), std::make_move_iterator(end));
    fresh_.erase(fresh_.begin(), end);
    has_fresh_.store(!fresh_.empty(), std::memory_order_seq_cst);
  }
  bool well_formed = true;
  bool all_equal = false;
  const ProposalSettings settings{settings_.fusion.together, settings_.fusion.each,
                                  settings_.cache_capacity};
  HVD_CHECK(communicator_->exchange_proposals(
      proposals_, settings, [&](int rank, std::span<const std::byte> bytes) {
        well_formed = well_formed && negotiation_.apply(rank, bytes);
        all_equal = equal_gradients_.receive(negotiation_.gradients()) || all_equal;
      }));
  if (!well_formed || negotiation_.tuning() >= candidate_count()) {
    communicator_->abort_job(FailureKind::broken, communicator_->rank());
    return fail(HVD_ERROR_SYSTEM, "a rank's proposals are malformed");
  }
  if (negotiation_.end_round() > 0)
    std::erase_if(feedback_,
                  [this](const auto& kept) { return !negotiation_.remembers(kept.first); });
  limits_ = limits_of(negotiation_.tuning(), settings_.fusion);
  // A search has tried larger ones.
  if (packed_.capacity() > 2 * limits_.together) std::vector<std::byte>().swap(packed_);
  if (tuner_ && negotiation_.any_joined()) tuner_->skip_step();
  rounds_.fetch_add(1, std::memory_order_relaxed);
  for (const Entry& entry : proposing_) entry->proposed = true;
  proposing_.clear();
  if (all_equal) on_equal_gradients_();
  return {};
}

// Runs the first ready collective, or small allreduces fused. If the ranks' calls do not match,
// ranks may choose different allreduces to fuse, or none. These do not match either, so all ranks
// get the mismatch error. Then all run what is ready now one by one; that list is the same on all
// ranks.
void Engine::execute_next() {
  const bool together =
      apart_ == 0 && negotiation_.ready().size() > 1 && !negotiation_.any_joined();
  const std::vector<Entry> entries = choose_next(together);
  if (entries.empty()) return follow_as_joined();
  const std::uint64_t begin = trace_.begin();
  const Result<void> outcome = execute(entries);
  if (together && is_mistake(outcome)) {
    apart_ = negotiation_.ready().size();
    return;
  }
  record(entries, begin, outcome.ok());
  if (tuner_ && !tuner_->over()) tune(entries);
  negotiation_.drop_ready(entries.size());
  apart_ -= std::min(apart_, entries.size());
  complete(entries, outcome);
}

void Engine::follow_as_joined() {
  const std::uint64_t begin = trace_.begin();
  trace_.negotiated("join", "", 0);
  const auto joined = communicator_->join();
  trace_.executed(begin, "join", "", communicator_->facts(), joined.ok());
  negotiation_.drop_ready(1);
  if (!joined.ok()) fail_all(joined.error());
}

// Returns the first ready collective, and with `together` those that can be fused with it. Returns
// nothing if this rank has joined and has not submitted the first one.
std::vector<Engine::Entry> Engine::choose_next(bool together) {
  FusionPlan plan(limits_);
  std::vector<Entry> chosen;
  const std::lock_guard lock(mutex_);
  for (const NamedTensor& tensor : negotiation_.ready()) {
    const auto found = in_flight_.find(tensor.name);
    if (found == in_flight_.end()) break;
    const Entry& entry = found->second;
    const bool fits = together && plan.add(entry->request);
    if (!fits && !chosen.empty()) break;
    if (!std::exchange(entry->runs, true))
      trace_.negotiated(entry->request.kind, entry->request.name, entry->submitted_ns);
    chosen.push_back(entry);
    if (!fits) break;
  }
  return chosen;
}

// Gives the compressed ones with names of the program what earlier calls have left out. Forgets
// that of names that the ranks have forgotten.
void Engine::give_feedback(const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    if (entry->named && entry->request.options.compression == Compression::int8 &&
        negotiation_.remembers(entry->hash))
      entry->request.options.feedback = &feedback_[entry->hash];
  }
}

Result<void> Engine::execute(const std::vector<Entry>& entries) {
  give_feedback(entries);
  for (const Entry& entry : entries) {
    if (!equal_gradients_.looks()) break;
    if (entry->request.gradients) equal_gradients_.look(entry->request, entry->hash);
  }
  if (entries.size() > 1) {
    std::vector<const Request*> requests;
    for (const Entry& entry : entries) requests.push_back(&entry->request);
    return run_fused(*communicator_, requests, packed_);
  }
  const Pending& entry = *entries.front();
  CallOptions options = entry.request.options;
  options.name = entry.request.name.c_str();
  options.name_hash = entry.hash;
  return entry.request.run(*communicator_, options);
}

// Records the collectives in the timeline.
void Engine::record(const std::vector<Entry>& entries, std::uint64_t begin, bool completed) {
  const Request& first = entries.front()->request;
  const CallFacts facts = communicator_->facts();
  if (entries.size() == 1) {
    trace_.executed(begin, first.kind, first.name, facts, completed);
  } else {
    trace_.executed_fused(begin, first.kind, static_cast<std::uint32_t>(entries.size()), facts,
                          completed);
  }
}

// Shows the tuner the collectives of this step. Names that the engine has given do not recur.
void Engine::tune(const std::vector<Entry>& entries) {
  const std::uint64_t now = monotonic_ns();
  for (const Entry& entry : entries) {
    if (!entry->named) continue;
    const auto& own = entry->request.allreduce;
    const std::size_t bytes =
        own ? own->count * element_size(own->type) : communicator_->facts().bytes;
    tuner_->completed(entry->hash, bytes, now);
  }
}

// Gives the outcome to the threads that wait.
void Engine::complete(const std::vector<Entry>& entries, const Result<void>& outcome) {
  if (shown_ && std::find(entries.begin(), entries.end(), shown_) != entries.end())
    hide(outcome.ok());
  {
    const std::lock_guard lock(mutex_);
    for (const Entry& entry : entries) {
      entry->outcome = outcome;
      in_flight_.erase(entry->hash);
    }
  }
  changed_.notify_all();
}

void Engine::end_join() {
  negotiation_.forget_joined();
  {
    const std::lock_guard lock(mutex_);
    if (!join_->outcome) join_->outcome = Result<void>();
    joined_ = false;
    unnamed_.clear();  // some ranks have made fewer calls than others
  }
  changed_.notify_all();
}

// Ends everything that is pending with an error. Everything that is submitted later fails with it.
void Engine::fail_all(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (!broken_) broken_ = stop_ ? stopped() : error;
    for (const auto& [hash, entry] : in_flight_)
      entry->outcome = with_context(title_of(entry->request), *broken_);
    in_flight_.clear();
    fresh_.clear();
    if (joined_) join_->outcome = *broken_;
    joined_ = false;
    has_fresh_.store(false, std::memory_order_seq_cst);
  }
  changed_.notify_all();
}

// Reports, shows or fails collectives that wait too long for other ranks. Called again and again
// while the engine waits.
void Engine::check_stalls() {
  const std::uint64_t now = monotonic_ns();
  if (now < next_check_ns_) return;
  next_check_ns_ = now + kCheckNs;
  std::vector<Waiting> waiting;
  std::uint64_t longest = 0;
  std::optional<int> blamed;
  Entry oldest;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [hash, entry] : in_flight_) {
      if (!oldest || entry->since_ns < oldest->since_ns) oldest = entry;
      const std::uint64_t waited = now - std::min(now, entry->since_ns);
      if (!watch_.due(waited) && !watch_.over(waited)) continue;
      const std::vector<int> missing = missing_for(*entry);
      if (missing.empty() || !reports(*entry, missing)) continue;
      if (watch_.over(waited)) blamed = missing.front();
      if (!watch_.due(waited) || std::exchange(entry->reported, true)) continue;
      longest = std::max(longest, waited);
      waiting.push_back({title_of(entry->request), numbers_of(*communicator_, missing)});
    }
  }
  std::sort(waiting.begin(), waiting.end(), [](const Waiting& a, const Waiting& b) {
    return std::tie(a.missing, a.what) < std::tie(b.missing, b.what);
  });
  if (!waiting.empty()) watch_.report(waiting, longest);
  if (oldest && watch_.shows(now - std::min(now, oldest->since_ns))) show(oldest);
  if (blamed) communicator_->abort_job(FailureKind::stalled, *blamed);
}

// Shows the collective to the listener, unless another one is shown.
void Engine::show(const Entry& entry) {
  const std::vector<int> missing = missing_for(*entry);
  if (missing.empty() || (shown_ != nullptr && shown_ != entry)) return;
  shown_ = entry;
  watch_.listener().show(entry->request.kind, entry->request.name, entry->since_ns,
                         fold_ranks(numbers_of(*communicator_, missing)));
}

void Engine::hide(bool completed) {
  shown_.reset();
  watch_.listener().clear(completed);
}

// Returns the ranks that the collective waits for. If the others know of it, these are the ranks
// that have not submitted it. If they do not, or if it runs, these are the ranks that have not
// begun the round.
std::vector<int> Engine::missing_for(const Pending& entry) const {
  if (entry.proposed && !entry.runs) return negotiation_.missing(entry.hash);
  return in_round_ ? communicator_->absent() : std::vector<int>();
}

// Returns whether this rank reports the wait for all ranks that wait. If the others know of the
// collective, the lowest rank that has submitted it reports. Otherwise it is the lowest rank that
// has begun the round and not joined.
bool Engine::reports(const Pending& entry, const std::vector<int>& missing) const {
  if (entry.proposed && !entry.runs)
    return negotiation_.first_to_propose(entry.hash) == communicator_->rank();
  std::optional<int> first;
  for (int rank = 0; rank < communicator_->size(); ++rank) {
    if (std::find(missing.begin(), missing.end(), rank) != missing.end()) continue;
    if (!negotiation_.has_joined(rank)) return rank == communicator_->rank();
    if (!first) first = rank;
  }
  return first == communicator_->rank();  // all of them have joined
}

}  // namespace libhvd
