#include "agent/gpu_ranks.hpp"

#include <algorithm>
#include <cstddef>

namespace hvdrun {

void GpuRanks::add(const std::vector<std::vector<GpuProcess>>& gpus) {
  gpus_ = gpus.size();
  for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    std::map<int, std::uint64_t> memory;  // of this GPU, by rank
    for (const auto& process : gpus[gpu]) {
      const auto rank = rank_of_(process.pid);
      if (!rank) continue;
      gpus_of_[*rank].insert(gpu);
      if (process.memory_bytes) memory[*rank] += *process.memory_bytes;
    }
    for (const auto& [rank, bytes] : memory)
      peak_memory_[rank] = std::max(peak_memory_[rank], bytes);
  }
}

bool GpuRanks::one_used_all() const {
  return gpus_ > 1 && std::any_of(gpus_of_.begin(), gpus_of_.end(), [this](const auto& of_rank) {
           return of_rank.second.size() == gpus_;
         });
}

}  // namespace hvdrun
