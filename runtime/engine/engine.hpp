// Collectives in the background, which ranks may submit in any order and from any thread.
//
// Ranks go in step through rounds, in a lane of the segment of their own. In a round each tells the
// names of what it has submitted since the last one; all see what all have told, so all know at the
// same moment, without a coordinator, which collectives every rank has submitted, and in which
// order to carry these out. They then do so one after the other, through the same communicator,
// which finds out by itself what does not fit together.
//
// There is no tick: a rank begins a round when something was submitted, and joins one that another
// rank has begun when something is pending here; until then it sleeps. The work is done by
// whichever thread waits for a result, else by a thread of the engine's own.
#pragma once

#include "base/result.hpp"
#include "collective/communicator.hpp"
#include "engine/request.hpp"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace libhvd {

// Any thread.
class Engine {
 public:
  // Error: there can be no thread. The communicator is used by nobody else.
  static Result<std::shared_ptr<Engine>> start(std::unique_ptr<Communicator> communicator);

  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // A handle, which is taken back by wait(). Error: this rank has submitted the name before, and
  // that is not done. What is wrong with the call itself is told to all ranks later.
  Result<std::int64_t> submit(Request request);

  // Error: there is no such handle.
  Result<bool> done(std::int64_t handle);
  // Waits for it, and says how it ended.
  Outcome wait(std::int64_t handle);

  // Ends everything that is pending with an error; all that is submitted later, too.
  void stop();

 private:
  struct Pending {
    Request request;
    std::uint64_t hash = 0;
    std::optional<Outcome> outcome;  // once it is done
  };
  using Entry = std::shared_ptr<Pending>;

  explicit Engine(std::unique_ptr<Communicator> communicator)
      : communicator_(std::move(communicator)) {}

  void run();
  void drive(const Pending* until);
  std::vector<Entry> take_fresh();
  Outcome round(const std::vector<Entry>& fresh);
  void execute(const std::vector<Entry>& ready);
  Outcome execute_fused(std::span<const Entry> entries);
  void complete(std::span<const Entry> entries, const Outcome& outcome);
  void fail_all(const Error& error);

  std::unique_ptr<Communicator> communicator_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable work_;
  std::condition_variable changed_;  // something is done, or nobody drives any more
  std::vector<Entry> fresh_;         // submitted, not told to the peers yet
  std::unordered_map<std::uint64_t, Entry> in_flight_;  // by the name's hash
  std::unordered_map<std::int64_t, Entry> handles_;
  std::int64_t last_handle_ = 0;
  std::uint64_t unnamed_ = 0;
  std::optional<Error> broken_;  // nothing works any more
  bool driven_ = false;          // a thread is in drive()
  bool stop_ = false;
  std::atomic<bool> has_fresh_{false};  // read without the mutex, too

  // The driver's.
  std::unordered_map<std::uint64_t, int> told_;  // how many ranks have told of a name
  std::vector<std::byte> scratch_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace libhvd
