#define HVD_REDUCE_KERNEL reduce_avx512
#include "collective/reduce_kernel.hpp"
