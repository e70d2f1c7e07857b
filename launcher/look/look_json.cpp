#include "look/look_json.hpp"

#include <nlohmann/json.hpp>

namespace hvdrun {
namespace {

using Json = nlohmann::ordered_json;

void put(Json& json, const char* name, const std::string& text) {
  if (!text.empty()) json[name] = text;
}

Json frame_json(const LookFrame& frame) {
  Json json{{"function", frame.function}};
  put(json, "file", frame.file);
  if (frame.line != 0) json["line"] = frame.line;
  put(json, "library", frame.library);
  json["language"] = frame.is_python ? "python" : "native";
  if (frame.interpreter) json["interpreter"] = true;
  return json;
}

Json thread_json(const ThreadLook& thread) {
  Json json{{"tid", thread.tid},
            {"name", thread.name},
            {"state", std::string(1, thread.state)},
            {"state_words", state_words(thread.state)}};
  put(json, "wait_channel", thread.wait_channel);
  put(json, "system_call", thread.system_call);
  put(json, "waits_for", thread.waits_for);
  if (thread.waiting_seconds) json["waiting_s"] = *thread.waiting_seconds;
  json["cpu_s"] = thread.cpu_seconds;
  json["switches"] = thread.switches;
  if (thread.holds_gil) json["holds_gil"] = true;
  json["stack"] = Json::array();
  for (const auto& frame : thread.stack) json["stack"].push_back(frame_json(frame));
  json["merged"] = thread.merged;
  put(json, "problem", thread.problem);
  if (const auto& moved = thread.movement)
    json["movement"] = {{"seconds", moved->seconds},         {"cpu_s", moved->cpu_seconds},
                        {"switches", moved->switches},       {"sleeps", moved->sleeps},
                        {"queued_s", moved->queued_seconds}, {"stack_changed", moved->frame_moved}};
  return json;
}

}  // namespace

std::string look_json(const ProcessLook& look) {
  Json json{{"pid", look.pid},
            {"asked", look.asked},
            {"parent", look.parent},
            {"name", look.name},
            {"state", std::string(1, look.state)},
            {"state_words", state_words(look.state)}};
  put(json, "command", look.command);
  put(json, "program", look.program);
  if (look.user) json["user"] = *look.user;
  put(json, "python", look.python);
  if (look.traced_by != 0) json["traced_by"] = {{"pid", look.traced_by}, {"name", look.tracer}};
  json["swapped_kib"] = look.swapped_kib;
  if (look.swapped_in_per_second) json["swapped_in_per_s"] = *look.swapped_in_per_second;
  if (look.frozen) json["frozen"] = true;
  if (look.throttled) json["throttled"] = *look.throttled;
  json["pause_ms"] = look.pause_seconds * 1000;
  json["children"] = Json::array();
  for (const auto& child : look.children)
    json["children"].push_back({{"pid", child.pid},
                                {"name", child.name},
                                {"state", std::string(1, child.state)},
                                {"state_words", state_words(child.state)}});
  json["thread_count"] = look.thread_count;
  json["threads"] = Json::array();
  for (const auto& thread : look.threads) json["threads"].push_back(thread_json(thread));
  json["problems"] = look.problems;
  put(json, "unfinished", look.unfinished);
  // Names in a process may have any bytes.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace hvdrun
