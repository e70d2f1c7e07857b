#define HVD_REDUCE_KERNEL reduce_avx512
#define HVD_REDUCE_SCALES_INTEGERS false
#include "collective/reduce_kernel.hpp"
