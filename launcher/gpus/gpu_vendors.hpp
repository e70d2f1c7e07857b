// The vendors whose GPUs hvdrun knows. A vendor has a folder beside this file and one row here.
//
// For any thread: the table does not change. It cannot fail.
#pragma once

#include "model/gpu_vendor.hpp"

#include <string_view>
#include <vector>

namespace hvdrun {

using GpuVendors = std::vector<GpuVendor>;

// Returns the table. On a host with GPUs of several vendors the first of them is used.
const GpuVendors& gpu_vendors();

// Returns the vendor with this name; null if there is none.
const GpuVendor* find_gpu_vendor(std::string_view name, const GpuVendors& vendors = gpu_vendors());

}  // namespace hvdrun
