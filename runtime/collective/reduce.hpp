// The arithmetic of reductions: one output from one input for each rank. Pure functions, any
// thread; they cannot fail. The kernels are in reduce_kernel.hpp, one for each instruction set.
#pragma once

#include "hvd/hvd.h"

#include <cstddef>
#include <span>

namespace libhvd {

// Factors of a reduction: `before` multiplies each input, `after` multiplies the result.
struct Scale {
  double before = 1;
  double after = 1;
  bool any() const { return before != 1 || after != 1; }
};

// Computes output[i] = op over r, in ascending order, of inputs[r][i], for `count` elements, by the
// rules of hvd_op. The value of an element depends on its inputs only: not on where a slice begins,
// nor on the processor.
//
// The type and op must be valid together (no average of bool). An input may be the output;
// otherwise the buffers must not overlap. All must be aligned to the element.
//
// Factors of floating point types are rounded to the type in which these are reduced. An integer is
// multiplied by a factor in double, then truncated towards zero, or set to the nearest value of its
// type. In an average with factors the sum is multiplied by `after` / ranks (as in Horovod). Bool
// has no factors.
void reduce(hvd_op op, hvd_type type, std::span<const void* const> inputs, void* output,
            std::size_t count, const Scale& scale = {});

// The same in two parts, for inputs that do not arrive together. The first part makes a partial
// result of some inputs, not rounded and not divided. The second makes the output of several
// partial results. Both take their inputs in ascending order. `ranks`: how many inputs all partial
// results have together. Output and inputs must not overlap; partial results must be aligned to 16
// bytes.
void reduce_begin(hvd_op op, hvd_type type, std::span<const void* const> inputs, void* partial,
                  std::size_t count, const Scale& scale);
void reduce_end(hvd_op op, hvd_type type, std::span<const void* const> partials, std::size_t ranks,
                void* output, std::size_t count, const Scale& scale);

// Returns the bytes of an element in a partial result: those of the type itself, or more (16-bit
// floats; the average of integers).
std::size_t partial_size(hvd_op op, hvd_type type);

// The instructions that a kernel uses. reduce() uses the last of these that the processor has.
enum class InstructionSet { plain, avx2, avx512 };

const char* instruction_set_name(InstructionSet set);
bool processor_has(InstructionSet set);

// The same as reduce() with a given instruction set, which the processor must have. All sets give
// the same bits.
void reduce_with(InstructionSet set, hvd_op op, hvd_type type, std::span<const void* const> inputs,
                 void* output, std::size_t count, const Scale& scale = {});

}  // namespace libhvd
