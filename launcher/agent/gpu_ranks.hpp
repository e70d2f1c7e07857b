// Which ranks compute on which GPUs, and how much GPU memory each rank has: the driver's lists of
// processes, summed up over the processes of each rank.
//
// The agent's thread for GPUs owns it. It cannot fail: a process whose rank is not found is left
// out.
#pragma once

#include "model/gpu_vendor.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace hvdrun {

class GpuRanks {
 public:
  // Returns the rank that a process belongs to.
  using RankOf = std::function<std::optional<int>(int pid)>;
  explicit GpuRanks(RankOf rank_of) : rank_of_(std::move(rank_of)) {}

  // Takes the processes of each GPU at one moment. The GPUs are the same in each call.
  void add(const std::vector<std::vector<GpuProcess>>& gpus);

  // Returns for each rank the most memory that its processes had together on one GPU, in bytes.
  // Ranks whose memory was not known at any time are left out.
  const std::map<int, std::uint64_t>& peak_memory() const { return peak_memory_; }

  // Returns whether there are several GPUs, and a rank was seen on each of them.
  bool one_used_all() const;

 private:
  RankOf rank_of_;
  std::map<int, std::uint64_t> peak_memory_;
  std::map<int, std::set<std::size_t>> gpus_of_;  // by rank
  std::size_t gpus_ = 0;
};

}  // namespace hvdrun
