// The one order in which the ranks' inputs are reduced, whatever the size of a call and the way it
// takes: first the ranks of each host in ascending order, then the hosts' partial results in
// ascending order of hosts. With one host, or with one rank on each, it is the order of ranks. With
// HVD_REPRODUCIBLE it is always the order of ranks.
//
// One thread at a time. Nothing here can fail.
#pragma once

#include "collective/reduce.hpp"
#include "hvd/hvd.h"

#include <cstddef>
#include <span>
#include <vector>

namespace libhvd {

class ReductionOrder {
 public:
  // hosts[r]: the index of rank r's host.
  explicit ReductionOrder(std::span<const int> hosts);

  // Returns whether the ranks of each host are reduced among themselves first: there are several
  // hosts, and one of them has several ranks. Otherwise a host's partial result is its rank's
  // input.
  bool in_two_parts() const { return in_two_parts_; }
  // Changes it to the order of ranks.
  void make_that_of_ranks() {
    in_two_parts_ = false;
    by_rank_ = true;
  }

  // Does what reduce() of reduce.hpp does, but in this order. The inputs are by rank.
  void reduce(hvd_op op, hvd_type type, std::span<const void* const> inputs, void* output,
              std::size_t count, const Scale& scale);

 private:
  std::vector<std::vector<std::size_t>> ranks_;  // by host
  bool in_two_parts_ = false;
  bool by_rank_ = true;  // the order is that of ranks
  // Scratch: a host's inputs, and the hosts' partial results of some elements.
  std::vector<const void*> inputs_;
  std::vector<const void*> partials_;
  std::vector<std::byte> partial_bytes_;
};

}  // namespace libhvd
