#include "protocol/host_messages.hpp"

#include "protocol/json_bytes.hpp"

#include <nlohmann/json.hpp>

namespace hvdrun {

nlohmann::json host_facts_json(const HostFacts& facts) {
  return {{"machine", bytes(facts.machine)},
          {"address", bytes(facts.address)},
          {"launcher_address", bytes(facts.launcher_address)},
          {"interfaces", bytes_list(facts.interfaces)},
          {"unresolved", bytes_list(facts.unresolved)}};
}

HostFacts host_facts_of(const nlohmann::json& json) {
  HostFacts facts;
  facts.machine = text_of(json.at("machine"));
  facts.address = text_of(json.at("address"));
  facts.launcher_address = text_of(json.at("launcher_address"));
  facts.interfaces = text_list(json.at("interfaces"));
  facts.unresolved = text_list(json.at("unresolved"));
  return facts;
}

}  // namespace hvdrun
