// Tells of collectives in which ranks wait too long for others.
#pragma once

#include "collective/communicator.hpp"
#include "engine/settings.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace libhvd {

// A collective that waits, and the ranks that it waits for, by their numbers in the job.
struct Waiting {
  std::string what;  // `allreduce "grad.3"`
  std::vector<int> missing;
};

// `allreduce "a" has waited 60 s for rank 2`; several of them as one line, a few by name.
std::string describe_stall(const std::vector<Waiting>& waiting, std::uint64_t waited_ns);

std::vector<int> numbers_of(const Communicator& communicator, const std::vector<int>& ranks);

// Who hears of waits.
struct StallListener {
  // Of one that lasts too long; null: a line on stderr.
  std::function<void(const std::string& text)> say = nullptr;
  // Of the longest one, over and over, and when it has ended; null: nobody. `missing` as "2,5-7".
  std::function<void(const std::string& kind, const std::string& name, std::uint64_t since_ns,
                     const std::string& missing)>
      show = nullptr;
  std::function<void(bool completed)> clear = nullptr;
};

// When that is said, and how. Any thread.
class StallWatch {
 public:
  StallWatch(const EngineSettings& settings, StallListener listener);

  // Whether a wait is long enough for a line, or for an error.
  bool due(std::uint64_t waited_ns) const;
  bool over(std::uint64_t waited_ns) const;
  void say(const std::vector<Waiting>& waiting, std::uint64_t waited_ns) const;

  // Whether a wait is long enough to be shown.
  bool shows(std::uint64_t waited_ns) const;
  const StallListener& listener() const { return listener_; }

 private:
  EngineSettings settings_;
  StallListener listener_;
};

}  // namespace libhvd
