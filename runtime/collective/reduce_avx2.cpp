#define HVD_REDUCE_KERNEL reduce_avx2
#include "collective/reduce_kernel.hpp"
