// The kernel that packs small tensors, by itself.
#pragma once

#include "device.hpp"

#include <functional>
#include <vector>

namespace gpu_check {

// Copies of all lengths and alignments must arrive, and nothing beside them.
void check_copies(Device& device);

// Prints how many bytes a second it packs, beside one copy of as many bytes from device to device.
void bench_copies(Device& device, int calls);

// Microseconds a call, from the first to when the GPU has done the last.
double time_on(Device& device, int calls, const std::function<void()>& call);

double median(std::vector<double> values);

}  // namespace gpu_check
