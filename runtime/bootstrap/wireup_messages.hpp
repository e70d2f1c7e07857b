// What the ranks tell each other when they meet, as values and as blobs for Bootstrap::exchange.
#pragma once

#include "base/result.hpp"
#include "bootstrap/bootstrap.hpp"
#include "bootstrap/socket.hpp"
#include "transport/segment.hpp"
#include "transport/transport.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace libhvd {

// First: who I am. Each rank has made a file in its shared memory; who sees it is on its host.
struct RankRecord {
  RankInfo info;
  std::string host;  // as messages name it
  std::string boot;  // the running kernel's own number: shared file systems make no host
  std::uint32_t pid = 0;
  std::string file;  // the name without the folder, which each rank knows for itself
  Nonce nonce{};
  Transport transport = Transport::tcp;
  bool encrypted = false;     // HVD_DATA_TLS
  std::string secret;         // of rank 0: what connections between hosts prove, mixed with the key
  Error trouble{HVD_OK, {}};  // why there is no file
};

// Second: which ranks are on one host. The first of them is its leader: it makes the segment and
// runs the bridge.
struct EndpointRecord {
  int leader = 0;                  // of this rank's host
  std::vector<Address> addresses;  // of a leader, when there are other hosts: where it listens
  std::vector<Address> streams;  // of every rank then: where it listens for the data's connections
  int first_tag = 0;             // over MPI: from here on it has no use yet for MPI's tags
  Error trouble{HVD_OK, {}};
};

// Third: whether all is well. An Error, HVD_OK when it is.

std::string encode(const RankRecord& rank_record);
std::string encode(const EndpointRecord& endpoint_record);
std::string encode(const Error& error);

// Error: not such a blob; the other rank runs another version.
Result<RankRecord> decode_rank_record(const std::string& blob);
Result<EndpointRecord> decode_endpoint_record(const std::string& blob);
Error decode_error(const std::string& blob);

}  // namespace libhvd
