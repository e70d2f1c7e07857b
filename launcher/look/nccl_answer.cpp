#include "look/nccl_answer.hpp"

#include "look/nccl_text.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>

namespace hvdrun {
namespace {

using NcclJson = nlohmann::json;

// A communicator with a rank that begins, ends or gives up says nothing with its calls.
bool is_steady(const NcclJson& status) {
  return status.value("init_state", 0) == 0 && !status.value("finalize_called", false) &&
         !status.value("destroy_flag", false) && !status.value("abort_flag", false);
}

NcclMember member_in(const NcclJson& json) {
  NcclMember member;
  json.at("rank").get_to(member.rank);
  json.at("host").get_to(member.host);
  json.at("pid").get_to(member.pid);
  return member;
}

std::optional<NcclCommunicator> communicator_in(const NcclJson& json) {
  NcclCommunicator communicator;
  communicator.id = json.at("hash").get<std::string>() + ":" + json.value("secondary_hash", "");
  for (const auto& rank : json.at("ranks")) {
    if (!is_steady(rank.at("status"))) return std::nullopt;
    auto& member = communicator.members.emplace_back(member_in(rank));
    rank.at("collective_counts").get_to(member.calls);
  }
  for (const auto& rank : json.at("missing_ranks")) {
    const auto& status = rank.at("status");
    // Without that it answers, but does not know the communicator: it begins or ends.
    if (!status.value("unresponsive", false) && !status.value("considered_dead", false))
      return std::nullopt;
    communicator.members.emplace_back(member_in(rank)).silent = true;
  }
  return communicator;
}

std::vector<NcclCommunicator> communicators_in(const NcclJson& json) {
  std::vector<NcclCommunicator> communicators;
  for (const auto& one : json.at("communicators"))
    if (auto communicator = communicator_in(one)) communicators.push_back(std::move(*communicator));
  return communicators;
}

}  // namespace

bool NcclCommunicator::is_uneven() const {
  return std::ranges::any_of(members, [this](const NcclMember& member) {
    return member.silent || member.calls != members.front().calls;
  });
}

std::optional<std::vector<NcclCommunicator>> parse_nccl_answer(const std::string& answer) {
  std::optional<std::vector<NcclCommunicator>> communicators;
  if (!answer.starts_with('{')) {
    communicators = parse_nccl_text(answer);
  } else {
    // The JSON library throws. No exception leaves this function.
    try {
      communicators = communicators_in(NcclJson::parse(answer));
    } catch (const NcclJson::exception&) {
      return std::nullopt;
    }
  }
  if (communicators)
    std::erase_if(*communicators, [](const auto& one) { return !one.is_uneven(); });
  return communicators;
}

std::string nccl_json(const std::vector<NcclCommunicator>& communicators) {
  NcclJson json;
  auto& all = json["nccl"] = NcclJson::array();
  for (const auto& communicator : communicators) {
    NcclJson members = NcclJson::array();
    for (const auto& member : communicator.members)
      members.push_back({{"rank", member.rank},
                         {"host", member.host},
                         {"pid", member.pid},
                         {"calls", member.calls},
                         {"silent", member.silent}});
    all.push_back({{"id", communicator.id}, {"members", std::move(members)}});
  }
  return json.dump(-1, ' ', false, NcclJson::error_handler_t::replace);
}

std::optional<std::vector<NcclCommunicator>> parse_nccl(const std::string& line) {
  if (!line.starts_with("{\"nccl\"")) return std::nullopt;
  try {
    std::vector<NcclCommunicator> communicators;
    const auto json = NcclJson::parse(line);
    for (const auto& one : json.at("nccl")) {
      auto& communicator = communicators.emplace_back();
      one.at("id").get_to(communicator.id);
      for (const auto& each : one.at("members")) {
        auto& member = communicator.members.emplace_back(member_in(each));
        each.at("calls").get_to(member.calls);
        each.at("silent").get_to(member.silent);
      }
    }
    return communicators;
  } catch (const NcclJson::exception&) {
    return std::nullopt;
  }
}

}  // namespace hvdrun
