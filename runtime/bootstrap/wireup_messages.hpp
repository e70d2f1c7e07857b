// What ranks exchange in the wire-up, as values and as blobs for Bootstrap::exchange(): in the
// first round rank records, in the second endpoint records, then the errors of all ranks. Pure
// functions; decoding an address calls getaddrinfo(3) with digits.
#pragma once

#include "base/error.hpp"
#include "bootstrap/rank_info.hpp"
#include "bootstrap/socket.hpp"
#include "transport/segment.hpp"
#include "transport/transport.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace libhvd {

// Who and where a rank is. Each rank has created a file in its shared memory; the ranks that see
// the file are on the same host.
struct RankRecord {
  RankInfo info;
  std::string host;  // its name in messages
  // The running kernel's id and NCCL_HOSTID: a file that several hosts see does not make them one.
  std::string host_id;
  std::uint32_t pid = 0;
  std::string file;  // the name without the folder, which each rank knows by itself
  Nonce nonce{};
  Transport transport = Transport::tcp;
  bool encrypted = false;   // HVD_DATA_TLS
  std::string secret;       // rank 0's: connections between hosts prove it, mixed with the key
  Error error{HVD_OK, {}};  // why there is no file
};

// Which host a rank is on, and where it listens. The first rank of a host is its leader: it creates
// the segment and runs the bridge.
struct EndpointRecord {
  int leader = 0;  // of this rank's host
  std::vector<Address>
      addresses;  // a leader's, if there are other hosts: where it listens for bridges
  std::vector<Address> streams;  // a rank's, if there are other hosts: where it listens for streams
  int first_tag = 0;             // with MPI: this tag and all later ones are unused on this rank
  Error error{HVD_OK, {}};
};

// An Error by itself has the status HVD_OK if nothing has failed.
std::string encode(const RankRecord& rank_record);
std::string encode(const EndpointRecord& endpoint_record);
std::string encode(const Error& error);

// Error: malformed blob, because the other rank runs another version.
Result<RankRecord> decode_rank_record(const std::string& blob);
Result<EndpointRecord> decode_endpoint_record(const std::string& blob);
Error decode_error(const std::string& blob);

}  // namespace libhvd
