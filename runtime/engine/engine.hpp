// The engine: collectives in the background, which ranks may submit in any order and from any
// thread. Each process set has an engine; the session owns it.
//
// The ranks go through rounds in step, in a lane of the segment that only engines use. In a round
// each rank proposes the names that it has submitted since the last round. All ranks see all
// proposals. So all know at the same moment, without a coordinator, which collectives every rank
// has submitted and in which order these run (negotiation.hpp). They then run the first of them, or
// several small ones fused, through the engine's communicator, which reports calls that do not
// match. What is submitted meanwhile is proposed in the next round, so a tensor of higher priority
// need not wait for all earlier ones.
//
// Rounds have no fixed period. A rank begins a round when something was submitted. It takes part in
// a round that another rank has begun when something is pending here. Until then it sleeps.
//
// One thread at a time drives the engine, that is, runs the rounds: a thread that waits for a
// result, or the engine's own thread if no thread waits. To wake another thread for each call would
// take longer than the call. So after the program has waited for a few calls in a row, the engine's
// thread leaves the work to the threads that wait, and only checks once a millisecond that they
// still drive.
//
// With HVD_AUTOTUNE, rank 0 sends with its proposals which limits of fusion apply from this round
// on (autotune.hpp).
//
// After an error of the communicator, everything that is pending or submitted later fails with it.
#pragma once

#include "base/error.hpp"
#include "collective/communicator.hpp"
#include "collective/error_feedback.hpp"
#include "engine/autotune.hpp"
#include "engine/equal_gradients.hpp"
#include "engine/negotiation.hpp"
#include "engine/request.hpp"
#include "engine/settings.hpp"
#include "engine/stall.hpp"
#include "trace/call_trace.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace libhvd {

struct EngineOptions {
  EngineSettings settings = {};
  StallListener listener = {};
  StallListener device_listener = {};                                 // of calls on GPUs
  std::optional<AutotuneLog> autotune_log = std::nullopt;             // on rank 0
  std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>();  // of the timeline
  std::uint16_t process_set = 0;    // the number of the engine's process set in the timeline
  std::int64_t before_handles = 0;  // handles are counted from the number after this one
  // Called once on each rank if all have sent the same gradients in EqualGradients::kSteps steps,
  // on the thread that drives. Null: the check is off.
  std::function<void()> on_equal_gradients = nullptr;
};

// Any thread.
class Engine {
 public:
  // Starts the engine's thread. Nothing else may use the communicator. Error: no thread can be
  // started.
  static Result<std::shared_ptr<Engine>> start(std::unique_ptr<Communicator> communicator,
                                               EngineOptions options = {});

  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Returns a handle, which wait() releases. Error: this rank has submitted the name before, and
  // that call is not done (it then fails on all ranks, unless it runs already); this rank has
  // joined. Other errors in the call are reported on all ranks when it runs.
  Result<std::int64_t> submit(Request request);

  // Waits until the collective is done, but at most `limit`, and returns whether it is. Does not
  // drive the engine. Error: there is no such handle.
  Result<bool> wait_for(std::int64_t handle, std::chrono::nanoseconds limit);
  Result<bool> done(std::int64_t handle) { return wait_for(handle, {}); }
  // Returns its kind ("allreduce") and its name; "" and "" if there is no such handle.
  std::pair<std::string, std::string> titles(std::int64_t handle) const;
  // Waits for the collective, releases the handle and returns the outcome.
  Result<void> wait(std::int64_t handle);
  // Releases the handle without waiting. The request must have a fault, so that it uses no buffers.
  // The next call of that name waits for this one.
  void forget(std::int64_t handle);

  // Joins: from now on this rank takes part in the calls of the others with zeros, until all ranks
  // have joined. Call it once before each wait_joined().
  void join();
  // Waits until all ranks have joined.
  Result<void> wait_joined();

  // Returns how many rounds the ranks have completed.
  std::uint64_t rounds() const { return rounds_.load(std::memory_order_relaxed); }

  // Returns Communicator::untold_loss(). Call it after stop().
  std::optional<Error> untold_loss() const { return communicator_->untold_loss(); }

  // Ends the engine's thread. Everything that is pending or submitted later fails with
  // HVD_ERROR_NOT_INITIALIZED.
  void stop();

 private:
  struct Pending {
    Request request;
    std::uint64_t hash = 0;
    std::uint64_t since_ns = 0;           // when it was submitted
    bool runs = false;                    // its arguments are in use
    bool forgotten = false;               // no thread waits for it
    bool named = false;                   // by the program
    bool proposed = false;                // all ranks know that it was submitted here
    bool reported = false;                // as waiting too long
    std::uint64_t submitted_ns = 0;       // for the timeline
    std::optional<Result<void>> outcome;  // once it is done
  };
  using Entry = std::shared_ptr<Pending>;

  Engine(std::unique_ptr<Communicator> communicator, EngineOptions options);

  // The engine's thread.
  void run();

  // The caller of these holds the mutex.
  bool busy() const { return !in_flight_.empty() || joined_; }
  void wake_driver();
  void drive(std::unique_lock<std::mutex>& lock, const Pending* until);
  void check_that_others_drive(std::unique_lock<std::mutex>& lock);
  Result<void> wait(std::unique_lock<std::mutex>& lock, const Entry& entry);
  bool may_leave(const Pending& until) const;

  // Only the driver calls these.
  void run_rounds(const Pending* until);
  bool stopping() const;
  Result<void> run_round();
  Result<void> exchange_proposals();
  void execute_next();
  void follow_as_joined();
  std::vector<Entry> choose_next(bool together);
  Result<void> execute(const std::vector<Entry>& entries);
  void give_feedback(const std::vector<Entry>& entries);
  void record(const std::vector<Entry>& entries, std::uint64_t begin, bool completed);
  void tune(const std::vector<Entry>& entries);
  void complete(const std::vector<Entry>& entries, const Result<void>& outcome);
  void end_join();
  void fail_all(const Error& error);

  // Only the driver calls these, to check for collectives that wait too long for other ranks.
  void check_stalls();
  std::vector<int> missing_for(const Pending& entry) const;
  bool reports(const Pending& entry, const std::vector<int>& missing) const;
  void show(const Entry& entry);
  void hide(bool completed);

  std::unique_ptr<Communicator> communicator_;
  EngineSettings settings_;
  StallWatch watch_;
  EngineTrace trace_;  // for the driver, except submission_ns()

  mutable std::mutex mutex_;         // guards what follows
  std::condition_variable work_;     // the engine's thread has something to do
  std::condition_variable changed_;  // something is done, or no thread drives any more
  std::deque<Entry> fresh_;          // submitted, not proposed yet
  std::unordered_map<std::uint64_t, Entry> in_flight_;  // by the name's hash
  std::unordered_map<std::int64_t, Entry> handles_;
  std::int64_t last_handle_;
  std::unordered_map<std::string, std::uint64_t> unnamed_;  // calls without a name, by kind
  Entry join_;                                              // the last call of join()
  bool joined_ = false;                                     // and not all others have yet
  bool join_proposed_ = false;                              // this rank has proposed to join
  std::optional<Error> broken_;                             // everything fails with this error
  bool driven_ = false;                                     // a thread is in drive()
  bool by_own_thread_ = false;                              // and it is the engine's
  int waiting_ = 0;               // threads that sleep while another one drives
  std::uint64_t drives_ = 0;      // how often drive() was called
  int awaited_ = 0;               // calls of drive() in a row for which a thread waited
  bool left_to_waiters_ = false;  // the engine's thread leaves the work to threads that wait
  bool stop_ = false;
  std::atomic<std::uint64_t> rounds_{0};
  std::atomic<bool> has_fresh_{false};   // also read without the mutex
  std::atomic<bool> hands_over_{false};  // the engine's thread must leave the work to another one

  // Only the driver uses these.
  Negotiation negotiation_;
  FusionLimits limits_;         // of this round
  std::optional<Tuner> tuner_;  // on rank 0, with HVD_AUTOTUNE
  std::optional<AutotuneLog> autotune_log_;
  EqualGradients equal_gradients_;
  std::function<void()> on_equal_gradients_;
  std::size_t apart_ = 0;  // this many ready collectives run one by one: fused, they did not match
  bool in_round_ = false;  // this rank has begun a round, which others may not have begun
  std::uint64_t next_check_ns_ = 0;
  Entry shown_;                     // shown by the listener, because it has waited longest
  std::vector<Entry> proposing_;    // in the running round
  std::vector<NamedTensor> names_;  // scratch
  std::vector<std::byte> proposals_;
  std::vector<std::byte> packed_;
  std::unordered_map<std::uint64_t, ErrorFeedback> feedback_;  // by the name's hash

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace libhvd
