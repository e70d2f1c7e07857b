// Collectives in the background, which ranks may submit in any order and from any thread.
//
// Ranks go in step through turns, in a lane of the segment of their own. In a turn each tells the
// names of what it has submitted since the last one; all see what all have told, so all know at the
// same moment, without a coordinator, which collectives every rank has submitted, and in which
// order to carry these out (negotiation.hpp). They then carry out the first one, or some small ones
// together, through the same communicator, which finds out by itself what does not fit together.
// What comes in the meantime is told in the next turn, so a tensor of higher priority need not wait
// for all that was there before it.
//
// There is no tick: a rank begins a turn when something was submitted, and joins one that another
// rank has begun when something is pending here; until then it sleeps. The work is done by
// whichever thread waits for a result, else by a thread of the engine's own: to wake another thread
// for each call would take longer than the call. So once the program has waited for its calls a few
// times, the engine's thread only looks now and then whether it still does.
#pragma once

#include "base/result.hpp"
#include "collective/communicator.hpp"
#include "engine/negotiation.hpp"
#include "engine/request.hpp"
#include "engine/settings.hpp"
#include "engine/stall.hpp"
#include "trace/call_trace.hpp"

#include <atomic>
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
  std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>();  // of the timeline
  std::uint16_t process_set = 0;                                      // there
};

// Any thread.
class Engine {
 public:
  // Error: there can be no thread. The communicator is used by nobody else.
  static Result<std::shared_ptr<Engine>> start(std::unique_ptr<Communicator> communicator,
                                               EngineOptions options = {});

  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // A handle, which is taken back by wait(). Error: this rank has submitted the name before, and
  // that is not done; then that one becomes an error on all ranks, too. What else is wrong with the
  // call itself is told to all ranks later.
  Result<std::int64_t> submit(Request request);

  // Error: there is no such handle.
  Result<bool> done(std::int64_t handle);
  // What it is: "allreduce" and its name; "" when there is no such handle.
  std::pair<std::string, std::string> titles(std::int64_t handle) const;
  // Waits for it, and says how it ended.
  Result<void> wait(std::int64_t handle);

  // From here on this rank has nothing to give: it takes part in the calls of the others with
  // zeros, until all ranks have joined. Once, until wait_joined() has returned.
  void join();
  Result<void> wait_joined();

  // How often its ranks have told each other something. Any thread.
  std::uint64_t rounds() const { return rounds_.load(std::memory_order_relaxed); }

  // Ends everything that is pending with an error; all that is submitted later, too.
  void stop();

 private:
  struct Pending {
    Request request;
    std::uint64_t hash = 0;
    std::uint64_t since_ns = 0;           // when it was submitted
    bool runs = false;                    // its arguments are being used
    bool told = false;                    // all ranks know that it was submitted here
    bool said = false;                    // that it waits too long
    std::uint64_t submitted_ns = 0;       // for the timeline
    std::optional<Result<void>> outcome;  // once it is done
  };
  using Entry = std::shared_ptr<Pending>;

  Engine(std::unique_ptr<Communicator> communicator, EngineOptions options);

  void run();
  // The caller of these three holds the mutex.
  bool busy() const { return !in_flight_.empty() || joined_; }
  void wake_driver();
  void drive(std::unique_lock<std::mutex>& lock, const Pending* until);
  void look_whether_driven(std::unique_lock<std::mutex>& lock);
  Result<void> wait(std::unique_lock<std::mutex>& lock, const Entry& entry);
  void take_turns(const Pending* until);
  bool may_leave(const Pending& until) const;
  bool stopping() const;
  Result<void> turn();
  Result<void> encode();
  void execute_next();
  void follow_as_joined();
  std::vector<Entry> choose_next(bool together);
  Result<void> execute(const std::vector<Entry>& entries);
  void record(const std::vector<Entry>& entries, std::uint64_t begin, bool completed);
  void complete(const std::vector<Entry>& entries, const Result<void>& outcome);
  void end_join();
  void fail_all(const Error& error);

  void look_for_stall();
  std::vector<int> missing_for(const Pending& entry) const;
  bool speaks_for(const Pending& entry, const std::vector<int>& missing) const;
  void show(const Entry& entry);
  void hide(bool completed);

  std::unique_ptr<Communicator> communicator_;
  EngineSettings settings_;
  StallWatch watch_;
  EngineTrace trace_;  // the driver's, but for submission_ns()

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable work_;
  std::condition_variable changed_;  // something is done, or nobody drives any more
  std::deque<Entry> fresh_;          // submitted, not told to the peers yet
  std::unordered_map<std::uint64_t, Entry> in_flight_;  // by the name's hash
  std::unordered_map<std::int64_t, Entry> handles_;
  std::int64_t last_handle_ = 0;
  std::unordered_map<std::string, std::uint64_t> unnamed_;  // how many, by kind
  Entry join_;                                              // the last call of join()
  bool joined_ = false;                                     // and not all others have yet
  bool join_told_ = false;
  std::optional<Error> broken_;  // nothing works any more
  bool driven_ = false;          // a thread is in drive()
  bool by_own_thread_ = false;   // and it is the engine's
  int waiting_ = 0;              // threads that sleep until another one has driven
  std::uint64_t drives_ = 0;     // how often a thread has begun to
  int awaited_ = 0;              // drives in a row whose result somebody waited for
  bool looking_ = false;         // the engine's thread leaves the work to those who wait
  bool stop_ = false;
  std::atomic<std::uint64_t> rounds_{0};
  std::atomic<bool> has_fresh_{false};   // read without the mutex, too
  std::atomic<bool> hands_over_{false};  // the engine's thread is to leave the work to another

  // The driver's.
  Negotiation negotiation_;
  std::size_t apart_ = 0;  // so many that are ready do not fit together: they go one by one
  bool meeting_ = false;   // the ranks meet for a turn, which some may not have begun
  std::uint64_t next_look_ns_ = 0;
  Entry shown_;                     // to the listener, as what has waited longest
  std::vector<Entry> telling_;      // in the running round
  std::vector<NamedTensor> names_;  // scratch
  std::vector<std::byte> proposals_;
  std::vector<std::byte> packed_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace libhvd
