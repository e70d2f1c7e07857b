// Reports collectives in which ranks wait too long for others. It decides when to report, and makes
// the text; its callers (engine.cpp, session.cpp) find the ranks. Any thread; nothing here can
// fail.
#pragma once

#include "collective/communicator.hpp"
#include "engine/settings.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace libhvd {

// A collective that waits for other ranks.
struct Waiting {
  std::string what;          // `allreduce "grad.3"`
  std::vector<int> missing;  // the ranks that it waits for, by their numbers in the job
};

// Returns `allreduce "a" has waited 60 s for rank 2`. Several collectives make one line, with the
// names of the first five for each set of missing ranks.
std::string describe_stall(const std::vector<Waiting>& waiting, std::uint64_t waited_ns);

// Returns the numbers in the job of these ranks of the communicator.
std::vector<int> numbers_of(const Communicator& communicator, const std::vector<int>& ranks);

// Callbacks for waits.
struct StallListener {
  // Reports waits that last too long; null: prints a line on stderr.
  std::function<void(const std::string& text)> report = nullptr;
  // Shows the longest wait, again and again while it lasts; null: does nothing. `since_ns` is by
  // CLOCK_MONOTONIC, `missing` is "2,5-7".
  std::function<void(const std::string& kind, const std::string& name, std::uint64_t since_ns,
                     const std::string& missing)>
      show = nullptr;
  // Ends the display that show() began. `completed`: the collective succeeded.
  std::function<void(bool completed)> clear = nullptr;
};

// Decides by the settings how long a wait must last for each reaction.
class StallWatch {
 public:
  StallWatch(const EngineSettings& settings, StallListener listener);

  // Returns whether a wait is long enough to be reported.
  bool due(std::uint64_t waited_ns) const;
  // Returns whether a wait is long enough to be an error.
  bool over(std::uint64_t waited_ns) const;
  // Reports the waits, the longest of which has lasted `waited_ns`.
  void report(const std::vector<Waiting>& waiting, std::uint64_t waited_ns) const;

  // Returns whether a wait is long enough to be shown.
  bool shows(std::uint64_t waited_ns) const;
  const StallListener& listener() const { return listener_; }

 private:
  EngineSettings settings_;
  StallListener listener_;
};

// Watches a communicator's calls on the GPUs. If this rank's GPU has not reached a call for too
// long, the rank reports that. If the GPU has reached it, it waits for those of other ranks: the
// listener shows that, and in the end it is an error on all ranks. One thread at a time; the
// communicator must outlive it.
class DeviceStallWatch {
 public:
  DeviceStallWatch(Communicator& communicator, const EngineSettings& settings,
                   StallListener listener)
      : communicator_(communicator), watch_(settings, std::move(listener)) {}

  // Looks at the oldest call that the GPU has not done (Communicator::on_device_wait()).
  void look(const std::optional<DeviceWait>& oldest);

 private:
  void report(const DeviceWait& wait, std::uint64_t since_call_ns) const;
  void show(const DeviceWait& wait);

  Communicator& communicator_;
  StallWatch watch_;
  std::uint64_t call_ns_ = 0;     // when the call was made that was seen last; 0: there is none
  std::uint64_t reached_ns_ = 0;  // when the GPU was first seen to have reached it; 0: not yet
  bool reported_ = false;
  bool shown_ = false;  // the listener shows it
};

}  // namespace libhvd
