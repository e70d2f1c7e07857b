// The arithmetic of allreduce: one output from one input a rank.
#pragma once

#include "hvd/hvd.h"

#include <cstddef>
#include <span>
#include <vector>

namespace libhvd {

// Factors of a reduction: each input's before, and the result's after.
struct Scale {
  double before = 1;
  double after = 1;
  bool any() const { return before != 1 || after != 1; }
};

// output[i] = op over r, in ascending order, of inputs[r][i], for `count` elements, with the rules
// of hvd_op. What an element becomes depends on its inputs only: not on where a slice begins, nor
// on the processor. The type and op are valid together (no average of bool). An input may be the
// output; otherwise they lie apart. All are aligned to the element. Factors of floating point types
// are rounded to the type in which these are reduced. An integer's product with a factor is that in
// double, truncated towards zero, or the nearest there is; of an average with factors, the sum is
// multiplied by `after` / ranks (as in Horovod). There are none for bool.
void reduce(hvd_op op, hvd_type type, std::span<const void* const> inputs, void* output,
            std::size_t count, const Scale& scale = {});

// The same in two parts, for inputs that do not come together: what some inputs give is held as it
// is, not rounded and not divided, and what several of those give is then finished. The inputs of
// both parts are taken in ascending order; `ranks` are all whose elements are in it. Output and
// inputs lie apart; what is held is aligned to 16 bytes.
void reduce_begin(hvd_op op, hvd_type type, std::span<const void* const> inputs, void* held,
                  std::size_t count, const Scale& scale);
void reduce_end(hvd_op op, hvd_type type, std::span<const void* const> held, std::size_t ranks,
                void* output, std::size_t count, const Scale& scale);

// Bytes of an element while it is held: of the type itself, or wider (16-bit floats; the average of
// integers).
std::size_t held_size(hvd_op op, hvd_type type);

// What of the processor reduce() may use. It takes the most that there is.
enum class InstructionSet { plain, avx2, avx512 };

const char* instruction_set_name(InstructionSet set);
bool processor_has(InstructionSet set);

// The same with a given one, which the processor has: all give the same bits.
void reduce_with(InstructionSet set, hvd_op op, hvd_type type, std::span<const void* const> inputs,
                 void* output, std::size_t count, const Scale& scale = {});

// The one order in which the ranks' inputs are reduced, whatever the size of a call and the way it
// goes: the ranks of a host in ascending order, then what the hosts have given, in ascending order
// of hosts. With one host, or with one rank on each, it is the order of ranks.

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
