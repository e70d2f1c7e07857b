// The messages between the PMIx servers of a job's agents. Pure functions and values.
//
// Agents have no connections to each other, so the launcher relays the frames. All numbers are
// little endian. parse_* accept any bytes and return an error for a malformed message. What they
// return points into the payload.
//
//   fence          agent → launcher    key size u32 | key | hosts u32 | host u32 each | status i32
//                                      | data: the rest
//   fence_result   launcher → agents   key size u32 | key | status i32 | data: the rest
//   fence_expired  agent → launcher    key
//   modex_request  agent → agent       asker u32 | rank u32
//   modex_answer   agent → agent       asker u32 | rank u32 | status i32 | data: the rest
//   names          agent → launcher    number u32 | operation u32 | flags u32 | values
//   names_answer   launcher → agent    number u32 | status i32 | values
//
// `values`: count u32, and of each: rank u32 | key size u32 | key | value size u32 | value. The
// agent numbers its requests for names.
//
// A fence's key says what for, which ranks take part, and which of their fences it is. Agents make
// it with pack_fence_key; for the launcher it is only a name. `hosts` are the hosts of these ranks.
// The data of a result is that of all hosts, in the order of their indices. A modex request asks
// the agent of a rank's host for the data that the rank has put. The answer is sent after the rank
// has committed. An agent has at most one request for a rank at a time, so asker and rank identify
// a request.
//
// A status is one of PMIx (pmix_status_t in pmix_common.h: 0 is success, errors are negative).
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// The values that hvdrun itself returns, as PMIx 4 numbers them (pmix_common.h).
enum PmixStatus : std::int32_t {
  kPmixSuccess = 0,
  kPmixTimeout = -24,
  kPmixOutOfResource = -29,
  kPmixNotFound = -46,
  kPmixPartialSuccess = -52,
  kPmixDuplicateKey = -53,
  kPmixLostConnection = -61,
};

// Returns number u32 | purpose size u32 | purpose | rank u32 each, ascending. No ranks means all of
// the job. `number` is that of the fence among those of these ranks and purpose, from 0.
std::string pack_fence_key(std::uint32_t number, std::string_view purpose,
                           const std::vector<std::uint32_t>& ranks);

struct FenceMessage {
  std::string_view key;
  std::vector<std::uint32_t> hosts;  // ascending, at least one
  std::int32_t status = kPmixSuccess;
  std::string_view data;
};
std::string pack_fence(const FenceMessage&);
Result<FenceMessage> parse_fence(std::string_view payload);

struct FenceResult {
  std::string_view key;
  std::int32_t status = kPmixSuccess;
  std::string_view data;
};
// Reserves memory for `data_size` bytes of data, which the caller appends.
std::string pack_fence_result(std::string_view key, std::int32_t status, std::size_t data_size = 0);
Result<FenceResult> parse_fence_result(std::string_view payload);

struct ModexRequest {
  std::uint32_t asker = 0;  // host index of the agent that wants the answer
  std::uint32_t rank = 0;
};
std::string pack_modex_request(const ModexRequest&);
Result<ModexRequest> parse_modex_request(std::string_view payload);

struct ModexAnswer {
  ModexRequest request;
  std::int32_t status = kPmixSuccess;
  std::string_view data;
};
std::string pack_modex_answer(const ModexAnswer&);
Result<ModexAnswer> parse_modex_answer(std::string_view payload);

// What a rank has published under a key.
struct PublishedValue {
  std::uint32_t rank = 0;  // that has published it
  std::string_view key;
  std::string_view value;  // as libpmix packs it
};

struct NamesRequest {
  enum class Operation : std::uint32_t {
    publish,
    look_up,
    withdraw,
    expire,  // the time limit of an earlier request, which has the same number, has passed
  };
  std::uint32_t number = 0;
  Operation operation = Operation::look_up;
  bool once = false;   // publish: the first lookup withdraws the values
  bool waits = false;  // look_up: the answer comes when all keys have values
  std::vector<PublishedValue> values;
};
std::string pack_names_request(const NamesRequest&);
Result<NamesRequest> parse_names_request(std::string_view payload);

struct NamesAnswer {
  std::uint32_t number = 0;
  std::int32_t status = kPmixSuccess;
  std::vector<PublishedValue> values;
};
std::string pack_names_answer(const NamesAnswer&);
Result<NamesAnswer> parse_names_answer(std::string_view payload);

}  // namespace hvdrun
