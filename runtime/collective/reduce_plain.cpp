#define HVD_REDUCE_KERNEL reduce_plain
#include "collective/reduce_kernel.hpp"
