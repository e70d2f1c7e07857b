// The one order in which the ranks' inputs are reduced, whatever the size of a call and the way it
// goes: the ranks of a host in ascending order, then what the hosts have given, in ascending order
// of hosts. With one host, or with one rank on each, it is the order of ranks.
#pragma once

#include "collective/reduce.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace libhvd {

// Used by one thread at a time.
class ReductionOrder {
 public:
  // hosts[r]: the host of rank r, by its index.
  explicit ReductionOrder(std::span<const int> hosts);

  // Whether a host's ranks are reduced for themselves first, as there are several hosts and one of
  // them has several ranks. Else what a host gives is its rank's input as it is.
  bool in_two_parts() const { return in_two_parts_; }

  // As reduce() of reduce.hpp, but in this order. The inputs are by rank.
  void reduce(hvd_op op, hvd_type type, std::span<const void* const> inputs, void* output,
              std::size_t count, const Scale& scale);

 private:
  std::vector<std::vector<std::size_t>> ranks_;  // by host
  bool in_two_parts_ = false;
  bool by_rank_ = true;  // the order is that of ranks
  // Scratch: a host's inputs, and what the hosts have given of a stretch.
  std::vector<const void*> inputs_;
  std::vector<const void*> given_;
  std::vector<std::byte> held_;
};

}  // namespace libhvd
