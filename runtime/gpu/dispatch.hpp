// Where a call goes: to the communicator, or to the device collectives beside it.
#pragma once

#include "collective/communicator.hpp"
#include "gpu/device_collectives.hpp"

#include <type_traits>

namespace libhvd {

// body: (Communicator& or DeviceCollectives&, const CallOptions&) -> Result<void>. One that takes
// only a Communicator& is for host memory; HVD_CUDA is then told to all ranks as a fault.
template <class Body>
Result<void> run_where_buffers_lie(Communicator& communicator, const CallOptions& options,
                                   const Body& body) {
  if (!options.place.on_device) return body(communicator, options);
  if constexpr (std::is_invocable_v<const Body&, DeviceCollectives&, const CallOptions&>) {
    DeviceCollectives device(communicator);
    return body(device, options);
  } else {
    CallOptions told = options;
    if (told.fault.empty()) told.fault = "this call is for host memory, but says HVD_CUDA";
    return body(communicator, told);
  }
}

}  // namespace libhvd
