// Several allreduces on device memory that are carried out as one (collective/group.hpp).
#pragma once

#include "base/result.hpp"
#include "collective/group.hpp"
#include "gpu/device_collectives.hpp"

namespace libhvd {

Outcome allreduce_group(DeviceCollectives& device, const AllreduceGroup& group,
                        const CallOptions& options);

}  // namespace libhvd
