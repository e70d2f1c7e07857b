#include "transport/transport.hpp"

#include "common/variables.h"

#include <string>

namespace libhvd {

const char* transport_name(Transport transport) {
  return transport == Transport::mpi ? "mpi" : "tcp";
}

Result<Transport> read_transport(const Environment& environment) {
  const std::string name = environment(HVD_ENV_TRANSPORT).value_or("");
  if (name.empty()) return Transport::tcp;
  for (const Transport transport : {Transport::tcp, Transport::mpi}) {
    if (name == transport_name(transport)) return transport;
  }
  return fail(HVD_ERROR_ENVIRONMENT, std::string(HVD_ENV_TRANSPORT) + "=\"" + name +
                                         "\" is not a transport: it is tcp (the default) or mpi");
}

}  // namespace libhvd
