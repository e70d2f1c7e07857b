// Sends a call to the communicator or to the device collectives, by the memory of its buffers. Runs
// on the thread of the call.
#pragma once

#include "collective/communicator.hpp"
#include "gpu/device_collectives.hpp"

#include <type_traits>

namespace libhvd {

// Calls body(Communicator& or DeviceCollectives&, const CallOptions&) -> Result<void>. A body that
// takes only a Communicator& is for host memory: HVD_CUDA is then a fault of the call, and so an
// error on all ranks.
template <class Body>
Result<void> run_where_buffers_lie(Communicator& communicator, const CallOptions& options,
                                   const Body& body) {
  if (!options.place.on_device) return body(communicator, options);
  if constexpr (std::is_invocable_v<const Body&, DeviceCollectives&, const CallOptions&>) {
    DeviceCollectives device(communicator);
    return body(device, options);
  } else {
    CallOptions faulty = options;
    if (faulty.fault.empty()) faulty.fault = "this call is for host memory, but says HVD_CUDA";
    return body(communicator, faulty);
  }
}

}  // namespace libhvd
