#define HVD_REDUCE_KERNEL reduce_plain
#define HVD_REDUCE_SCALES_INTEGERS true
#include "collective/reduce_kernel.hpp"
