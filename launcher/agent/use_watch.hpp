// Computes what this agent's ranks use of their host while none of them reports progress: how many
// processors, and how busy their GPUs are.
//
// PageWatch owns it, on the agent's loop thread. It cannot fail.
#pragma once

#include "agent/process_use.hpp"
#include "model/progress.hpp"
#include "model/report.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

class UseWatch {
 public:
  // The ranks have started: until now they have used nothing.
  void begin(std::uint64_t now_ns);

  // Returns whether it is time for a look. A look reads files of each process of the ranks.
  bool is_due(std::uint64_t now_ns) const;

  // Takes a look at the processes of all ranks that live, by pid, and at the ranks' GPUs.
  void look(const std::map<pid_t, ProcessUse>& ranks, const std::vector<GpuUse>& gpus,
            std::uint64_t now_ns);

  // Returns the use between the last two looks; empty before the first look.
  const std::optional<UseNow>& use() const { return use_; }

 private:
  std::uint64_t looked_ns_ = 0;
  std::map<pid_t, double> cpu_seconds_;  // at the last look
  std::optional<UseNow> use_;
};

}  // namespace hvdrun
