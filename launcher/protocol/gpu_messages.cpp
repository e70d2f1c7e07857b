#include "protocol/gpu_messages.hpp"

#include "protocol/optional_json.hpp"

#include <cstdint>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

namespace hvdrun {
namespace {

using Json = nlohmann::json;

Json throttling_json(const std::optional<Throttling>& throttling) {
  if (!throttling) return {};
  return {{"samples", throttling->samples}, {"seen", throttling->seen}};
}

std::optional<Throttling> throttling_of(const Json& json) {
  if (json.is_null()) return std::nullopt;
  Throttling throttling;
  json.at("samples").get_to(throttling.samples);
  json.at("seen").get_to(throttling.seen);
  return throttling;
}

Json use_json(const GpuUse& use) {
  return {{"uuid", use.uuid},
          {"samples", use.samples},
          {"busy_percent", or_null(use.busy_percent)},
          {"peak_memory_bytes", or_null(use.peak_memory_bytes)},
          {"peak_celsius", or_null(use.peak_celsius)},
          {"mean_watts", or_null(use.mean_watts)},
          {"peak_watts", or_null(use.peak_watts)},
          {"throttling", throttling_json(use.throttling)}};
}

GpuUse use_of(const Json& json) {
  GpuUse use;
  json.at("uuid").get_to(use.uuid);
  json.at("samples").get_to(use.samples);
  read_optional(json.at("busy_percent"), use.busy_percent);
  read_optional(json.at("peak_memory_bytes"), use.peak_memory_bytes);
  read_optional(json.at("peak_celsius"), use.peak_celsius);
  read_optional(json.at("mean_watts"), use.mean_watts);
  read_optional(json.at("peak_watts"), use.peak_watts);
  use.throttling = throttling_of(json.at("throttling"));
  return use;
}

}  // namespace

Json gpu_record_json(const GpuRecord& record) {
  Json gpus = Json::array();
  for (const auto& use : record.gpus) gpus.push_back(use_json(use));
  Json memory = Json::array();
  for (const auto& [rank, bytes] : record.rank_memory) memory.push_back({rank, bytes});
  return {{"gpus", std::move(gpus)},
          {"rank_memory", std::move(memory)},
          {"rank_drove_all", record.rank_drove_all}};
}

GpuRecord gpu_record_of(const Json& json) {
  GpuRecord record;
  for (const auto& use : json.at("gpus")) record.gpus.push_back(use_of(use));
  for (const auto& pair : json.at("rank_memory"))
    record.rank_memory[pair.at(0).get<int>()] = pair.at(1).get<std::uint64_t>();
  json.at("rank_drove_all").get_to(record.rank_drove_all);
  return record;
}

}  // namespace hvdrun
