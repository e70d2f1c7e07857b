// How many cores each rank of a host gets, and which of those that are free. Pure functions, for
// any thread, that cannot fail. They know no GPUs: bind_cores decides what is near a rank.
#pragma once

#include "model/placement.hpp"

#include <cstddef>
#include <vector>

namespace hvdrun {

using Cores = std::vector<int>;  // positions in HostInventory::cores, ascending

// Returns the size of the i-th of `parts` nearly equal parts of `total`. The larger parts are
// spread out, so that the parts of 4 ranks on 2 nodes of 3 cores do not straddle the nodes.
std::size_t part_size(std::size_t total, std::size_t i, std::size_t parts);

// Returns `count` of the free cores, or all if there are fewer. They lie in as few packages, NUMA
// nodes and L3 caches as possible, in this order, and leave the others as whole as possible.
Cores pick_cores(const std::vector<Core>& cores, const Cores& free, std::size_t count);

// Removes cores from others. Both are ascending.
void remove_cores(Cores& from, const Cores& cores);

// Returns the cores by kind, the fastest first.
std::vector<Cores> by_kind(const std::vector<Core>& cores, const Cores& of);

// Returns by kind and part how many cores a part has: nearly as many of each kind and in all.
std::vector<std::vector<std::size_t>> divide_kinds(const std::vector<Cores>& kinds,
                                                   std::size_t parts);

}  // namespace hvdrun
