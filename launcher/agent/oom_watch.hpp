// Whether the kernel has killed for memory in our control group since the last question.
//
// Source: Linux Documentation/admin-guide/cgroup-v2.rst (memory.events: oom_kill) and
// cgroup-v1/memory.rst (memory.oom_control: oom_kill).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace hvdrun {

class OomWatch {
 public:
  // Finds the file that counts for this process. Without one, happened() is always false.
  OomWatch();
  explicit OomWatch(std::filesystem::path counter_file);  // for tests

  // True once for each kill that was counted since the last call.
  bool happened();

 private:
  std::optional<std::uint64_t> count() const;

  std::filesystem::path file_;
  std::uint64_t seen_ = 0;
};

}  // namespace hvdrun
