// Checks and measures the kernel that packs small tensors, without a collective.
#pragma once

#include "device.hpp"

#include <cstddef>
#include <functional>
#include <vector>

namespace gpu_check {

// Checks copies of all lengths and alignments, and that they write no byte beside the copies.
void check_copies(Device& device);

// Prints the kernel's speed and that of one copy from device to device. Both copy `bytes` bytes.
// They must be more than the device's cache holds: otherwise it measures the cache.
void bench_copies(Device& device, std::size_t bytes);

// Returns the microseconds of each call, from the first call until the GPU has done the last.
double time_on(Device& device, int calls, const std::function<void()>& call);

double median(std::vector<double> values);

}  // namespace gpu_check
