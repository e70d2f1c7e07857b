// The kernel that packs small tensors, by itself.
#pragma once

#include "device.hpp"

#include <cstddef>
#include <functional>
#include <vector>

namespace gpu_check {

// Copies of all lengths and alignments must arrive, and nothing beside them.
void check_copies(Device& device);

// Prints how many bytes a second it reads and writes, beside one copy from device to device. Both
// move `bytes` bytes: more than the device's cache holds, or else the cache is measured.
void bench_copies(Device& device, std::size_t bytes);

// Microseconds a call, from the first to when the GPU has done the last.
double time_on(Device& device, int calls, const std::function<void()>& call);

double median(std::vector<double> values);

}  // namespace gpu_check
