#include "job/pmix_router.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

Error too_much(std::size_t bytes) {
  return fail(
      fmt::format("what the ranks exchange in one PMIx fence is {} bytes or more, and hvdrun "
                  "carries at most {}: let ranks put less, or fence without collecting data",
                  bytes, kMaxPayload));
}

}  // namespace

PmixRouter::PmixRouter(std::size_t host_count, Send send)
    : lost_(host_count, false),
      send_(std::move(send)),
      names_([this](std::size_t host, const NamesAnswer& answer) {
        if (reachable(host))
          send_(host, FrameType::names_answer,
                std::make_shared<const std::string>(pack_names_answer(answer)));
      }) {}

Result<void> PmixRouter::take(std::size_t host_index, const Frame& frame) {
  const auto host = static_cast<std::uint32_t>(host_index);
  switch (frame.type) {
    case FrameType::fence: {
      HVD_TRY(const auto message, parse_fence(frame.payload));
      return on_fence(host, message);
    }
    case FrameType::fence_expired:
      on_fence_expired(frame.payload);
      return {};
    case FrameType::modex_request:
      return on_modex_request(host, frame);
    case FrameType::modex_answer:
      return on_modex_answer(host, frame);
    case FrameType::names: {
      HVD_TRY(const auto request, parse_names_request(frame.payload));
      names_.take(host_index, request);
      return {};
    }
    default:
      return fail(fmt::format("a frame of type {} is not for the exchange of PMIx data",
                              static_cast<int>(frame.type)));
  }
}

// --- fences --------------------------------------------------------------------------------------

Result<PmixRouter::Fences::iterator> PmixRouter::find_or_begin(const FenceMessage& message) {
  const auto at = fences_.find(message.key);
  if (at == fences_.end()) {
    if (message.hosts.back() >= lost_.size())
      return fail(fmt::format("an agent began a PMIx fence with host {}; the job has {}",
                              message.hosts.back(), lost_.size()));
    Fence fence;
    for (const auto host : message.hosts) fence.parts.push_back({host, false, {}});
    return fences_.emplace(message.key, std::move(fence)).first;
  }
  const auto& parts = at->second.parts;
  if (!std::equal(parts.begin(), parts.end(), message.hosts.begin(), message.hosts.end(),
                  [](const Part& part, std::uint32_t host) { return part.host == host; }))
    return fail("two agents do not agree on which hosts take part in a PMIx fence");
  return at;
}

Result<void> PmixRouter::on_fence(std::uint32_t host, const FenceMessage& message) {
  HVD_TRY(const auto at, find_or_begin(message));
  Fence& fence = at->second;
  const auto part = std::find_if(fence.parts.begin(), fence.parts.end(),
                                 [host](const Part& one) { return one.host == host; });
  if (part == fence.parts.end() || part->came)
    return fail(fmt::format("the agent of host {} came {} to a PMIx fence", host,
                            part == fence.parts.end() ? "uninvited" : "twice"));
  part->came = true;
  if (fence.status != kPmixSuccess) {
    send_(host, FrameType::fence_result,
          std::make_shared<const std::string>(pack_fence_result(message.key, fence.status)));
    if (all_came_or_lost(fence)) fences_.erase(at);
    return {};
  }
  if (message.status != kPmixSuccess) {
    fail_fence(at, message.status);
    return {};
  }
  // Not once all have come: the launcher would hold as much for each host until then.
  if (fence.bytes + message.data.size() > kMaxPayload)
    return too_much(fence.bytes + message.data.size());
  fence.bytes += message.data.size();
  part->data = message.data;
  if (std::all_of(fence.parts.begin(), fence.parts.end(), [](const Part& one) { return one.came; }))
    return complete(at);
  const bool lost = std::any_of(fence.parts.begin(), fence.parts.end(),
                                [this](const Part& one) { return !one.came && lost_[one.host]; });
  if (lost) fail_fence(at, kPmixLostConnection);
  return {};
}

// A fence's time limit has run out on one host. The fence may be complete meanwhile.
void PmixRouter::on_fence_expired(std::string_view key) {
  const auto at = fences_.find(key);
  if (at != fences_.end() && at->second.status == kPmixSuccess) fail_fence(at, kPmixTimeout);
}

bool PmixRouter::all_came_or_lost(const Fence& fence) const {
  return std::all_of(fence.parts.begin(), fence.parts.end(),
                     [this](const Part& part) { return part.came || lost_[part.host]; });
}

void PmixRouter::send_to_those_who_came(const Fence& fence, const SharedPayload& result) const {
  for (const auto& part : fence.parts)
    if (part.came && !lost_[part.host]) send_(part.host, FrameType::fence_result, result);
}

void PmixRouter::fail_fence(Fences::iterator at, std::int32_t status) {
  Fence& fence = at->second;
  fence.status = status;
  for (auto& part : fence.parts) part.data = {};
  send_to_those_who_came(fence,
                         std::make_shared<const std::string>(pack_fence_result(at->first, status)));
  if (all_came_or_lost(fence)) fences_.erase(at);
}

Result<void> PmixRouter::complete(Fences::iterator at) {
  const auto fence = std::move(at->second);
  const auto key = at->first;
  fences_.erase(at);
  auto result = pack_fence_result(key, kPmixSuccess, fence.bytes);
  if (result.size() + fence.bytes > kMaxPayload) return too_much(fence.bytes);
  for (const auto& part : fence.parts) result += part.data;
  send_to_those_who_came(fence, std::make_shared<const std::string>(std::move(result)));
  return {};
}

// --- direct modex --------------------------------------------------------------------------------

Result<void> PmixRouter::on_modex_request(std::uint32_t host, const Frame& frame) {
  HVD_TRY(const auto request, parse_modex_request(frame.payload));
  const auto asked = frame.destination;
  if (request.asker != host || asked >= lost_.size())
    return fail(fmt::format("the agent of host {} sent a modex request of host {} to host {}", host,
                            request.asker, asked));
  if (!reachable(asked)) {
    refuse(request, kPmixLostConnection);
    return {};
  }
  if (!open_.emplace(Request{request.asker, request.rank}, asked).second)
    return fail(fmt::format("the agent of host {} asked twice for what rank {} has put", host,
                            request.rank));
  send_(asked, FrameType::modex_request, std::make_shared<const std::string>(frame.payload));
  return {};
}

Result<void> PmixRouter::on_modex_answer(std::uint32_t host, const Frame& frame) {
  HVD_TRY(const auto answer, parse_modex_answer(frame.payload));
  const auto at = open_.find({answer.request.asker, answer.request.rank});
  if (at == open_.end() && answer.request.asker < lost_.size() && lost_[answer.request.asker])
    return {};
  if (at == open_.end() || at->second != host)
    return fail(
        fmt::format("the agent of host {} answered a modex request that was not made to it", host));
  open_.erase(at);
  send_(answer.request.asker, FrameType::modex_answer,
        std::make_shared<const std::string>(frame.payload));
  return {};
}

void PmixRouter::refuse(const ModexRequest& request, std::int32_t status) const {
  send_(request.asker, FrameType::modex_answer,
        std::make_shared<const std::string>(pack_modex_answer({request, status, {}})));
}

// --- losing agents -------------------------------------------------------------------------------

void PmixRouter::host_lost(std::size_t host_index) {
  if (!reachable(host_index)) return;
  lost_[host_index] = true;
  names_.host_lost(host_index);
  const auto host = static_cast<std::uint32_t>(host_index);
  for (auto next = fences_.begin(); next != fences_.end();) {
    const auto at = next++;
    const auto& fence = at->second;
    const auto part = std::find_if(fence.parts.begin(), fence.parts.end(),
                                   [host](const Part& one) { return one.host == host; });
    if (part == fence.parts.end()) continue;
    if (fence.status != kPmixSuccess) {
      if (all_came_or_lost(fence)) fences_.erase(at);
    } else if (!part->came) {
      fail_fence(at, kPmixLostConnection);
    }
  }
  for (auto next = open_.begin(); next != open_.end();) {
    const auto at = next++;
    const auto [request, asked] = *at;
    const auto [asker, rank] = request;
    if (asker != host && asked != host) continue;
    open_.erase(at);
    if (asker != host) refuse({asker, rank}, kPmixLostConnection);
  }
}

}  // namespace hvdrun
