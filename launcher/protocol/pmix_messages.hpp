// What the PMIx servers of a job's agents say to each other through the launcher.
//
// Agents have no connections to each other: a frame goes to the launcher, which relays. All numbers
// are little endian; parse_* refuse what does not fit and never crash on any bytes, and what they
// return points into the payload.
//
//   fence          agent → launcher    key size u32 | key | hosts u32 | host u32 each | status i32
//                                      | data: the rest
//   fence_result   launcher → agents   key size u32 | key | status i32 | data: the rest
//   fence_expired  agent → launcher    key
//   modex_request  agent → agent       asker u32 | rank u32
//   modex_answer   agent → agent       asker u32 | rank u32 | status i32 | data: the rest
//
// A fence's key says which ranks take part, and which of their fences it is; only agents look into
// it (pack_fence_key), for the launcher it is a name. `hosts` are the hosts of these ranks. The
// data of a result is that of all hosts, in the order of their indices. A modex request asks the
// agent of a rank's host for what that rank has put; the answer comes when it has committed. An
// agent asks for a rank only once at a time, so asker and rank name a request.
//
// A status is one of PMIx's (pmix_status_t in pmix_common.h: 0 is success, errors are negative).
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// The values that we give ourselves, as PMIx 4 numbers them (pmix_common.h).
enum PmixStatus : std::int32_t {
  kPmixSuccess = 0,
  kPmixTimeout = -24,
  kPmixNotFound = -46,
  kPmixLostConnection = -61,
};

// number u32 | rank u32 each, ascending; no rank: all of the job. `number` counts the fences of
// these ranks, from 0.
std::string pack_fence_key(std::uint32_t number, const std::vector<std::uint32_t>& ranks);

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
// Room for `data_size` bytes of data is reserved, for the caller to append.
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

}  // namespace hvdrun
