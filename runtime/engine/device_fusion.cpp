#include "engine/device_fusion.hpp"

#include "gpu/device_collectives.hpp"

#include <string>
#include <vector>

namespace libhvd {

Outcome run_fused_on_device(Communicator& communicator, std::span<const Request* const> requests) {
  std::vector<DevicePiece> pieces;
  std::vector<DeviceCall*> calls;
  std::string name;  // the same on two ranks only when they have packed the same
  for (const Request* request : requests) {
    const AllreduceArguments& own = *request->allreduce;
    pieces.push_back({own.input, own.output, own.count});
    calls.push_back(request->device_call.get());
    name += request->name + ' ' + std::to_string(own.count) + ' ' + request->options.shape + '\n';
  }
  const AllreduceArguments& first = *requests.front()->allreduce;
  CallOptions options = requests.front()->options;
  options.name = name.c_str();
  options.shape = {};  // each one's is in the name
  return DeviceCall::run(calls, options, [&](const CallOptions& on_stream) {
    return DeviceCollectives(communicator)
        .allreduce_together(pieces, first.type, first.op, on_stream);
  });
}

}  // namespace libhvd
