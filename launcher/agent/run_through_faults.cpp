#include "agent/run_through_faults.hpp"

#include <exception>
#include <optional>
#include <utility>

namespace hvdrun {
namespace {

constexpr int kMostFaults = 10;

}  // namespace

void run_through_faults(EventLoop& loop, const FaultyRun& run) {
  bool has_begun = false;
  std::optional<std::string> fault;
  for (int faults = 1;; ++faults) {
    try {
      if (!std::exchange(has_begun, true)) run.begin();
      if (fault) run.on_fault(*std::exchange(fault, std::nullopt));
      if (!run.is_over()) loop.run();
      return;
    } catch (const std::exception& error) {
      if (faults == kMostFaults) throw;
      fault = error.what();
    }
  }
}

}  // namespace hvdrun
