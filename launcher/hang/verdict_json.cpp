#include "hang/verdict_json.hpp"

#include <nlohmann/json.hpp>

namespace hvdrun {

std::string_view hang_kind_text(HangKind kind) {
  switch (kind) {
    case HangKind::hangs:
      return "hangs";
    case HangKind::slow:
      return "slow";
    case HangKind::moves:
      return "moves";
    case HangKind::unknown:
      break;
  }
  return "unknown";
}

std::vector<std::string> verdict_lines(const HangReport& report) {
  std::vector<std::string> lines{report.text};
  for (const auto& problem : report.problems) lines.push_back("not seen: " + problem);
  lines.insert(lines.end(), report.stacks.begin(), report.stacks.end());
  return lines;
}

std::string verdict_json(const HangReport& report) {
  using Json = nlohmann::ordered_json;
  const Json json{{"kind", hang_kind_text(report.kind)},
                  {"text", report.text},
                  {"blamed", report.blamed},
                  {"waiting", report.waiting},
                  {"collective", report.collective},
                  {"stacks", report.stacks},
                  {"problems", report.problems}};
  // Names in a process may have any bytes.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace hvdrun
