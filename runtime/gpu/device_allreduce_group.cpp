#include "gpu/device_allreduce_group.hpp"

#include <cstddef>

namespace libhvd {

// The ranks agree on the group in host memory; then each tensor goes to the device's stream.
Outcome allreduce_group(DeviceCollectives& device, const AllreduceGroup& group,
                        const CallOptions& options) {
  HVD_CHECK(open_allreduce_group(device.communicator(), group, options));
  for (std::size_t i = 0; i < group.counts.size(); ++i) {
    HVD_CHECK(device.allreduce(group.inputs[i], group.outputs[i], group.counts[i], group.type,
                               group.op, options));
  }
  return Done{};
}

}  // namespace libhvd
