#include "look/look_parse.hpp"

#include <nlohmann/json.hpp>

namespace hvdrun {
namespace {

using LookJson = nlohmann::json;

// A field that is missing keeps its value.
template <class T>
void take(const LookJson& json, const char* name, T& value) {
  if (const auto at = json.find(name); at != json.end()) at->get_to(value);
}

template <class T>
void take(const LookJson& json, const char* name, std::optional<T>& value) {
  if (const auto at = json.find(name); at != json.end()) value = at->get<T>();
}

char state_in(const LookJson& json) {
  std::string state;
  take(json, "state", state);
  return state.empty() ? '?' : state[0];
}

LookFrame frame_in(const LookJson& json) {
  LookFrame frame;
  take(json, "function", frame.function);
  take(json, "file", frame.file);
  take(json, "line", frame.line);
  take(json, "library", frame.library);
  frame.is_python = json.value("language", "") == "python";
  take(json, "interpreter", frame.interpreter);
  return frame;
}

ThreadLook thread_in(const LookJson& json) {
  ThreadLook thread;
  take(json, "tid", thread.tid);
  take(json, "name", thread.name);
  thread.state = state_in(json);
  take(json, "wait_channel", thread.wait_channel);
  take(json, "system_call", thread.system_call);
  take(json, "waits_for", thread.waits_for);
  take(json, "waiting_s", thread.waiting_seconds);
  take(json, "cpu_s", thread.cpu_seconds);
  take(json, "switches", thread.switches);
  take(json, "holds_gil", thread.holds_gil);
  for (const auto& frame : json.at("stack")) thread.stack.push_back(frame_in(frame));
  take(json, "merged", thread.merged);
  take(json, "problem", thread.problem);
  if (const auto at = json.find("movement"); at != json.end()) {
    Movement& moved = thread.movement.emplace();
    take(*at, "seconds", moved.seconds);
    take(*at, "cpu_s", moved.cpu_seconds);
    take(*at, "switches", moved.switches);
    take(*at, "sleeps", moved.sleeps);
    take(*at, "queued_s", moved.queued_seconds);
    take(*at, "stack_changed", moved.frame_moved);
  }
  return thread;
}

ChildLook child_in(const LookJson& json) {
  ChildLook child;
  take(json, "pid", child.pid);
  take(json, "name", child.name);
  child.state = state_in(json);
  return child;
}

ProcessLook look_in(const LookJson& json) {
  ProcessLook look;
  json.at("pid").get_to(look.pid);
  take(json, "asked", look.asked);
  take(json, "parent", look.parent);
  take(json, "name", look.name);
  take(json, "command", look.command);
  take(json, "program", look.program);
  look.state = state_in(json);
  take(json, "user", look.user);
  take(json, "python", look.python);
  if (const auto at = json.find("traced_by"); at != json.end()) {
    take(*at, "pid", look.traced_by);
    take(*at, "name", look.tracer);
  }
  take(json, "swapped_kib", look.swapped_kib);
  take(json, "swapped_in_per_s", look.swapped_in_per_second);
  take(json, "frozen", look.frozen);
  take(json, "throttled", look.throttled);
  double pause_ms = 0;
  take(json, "pause_ms", pause_ms);
  look.pause_seconds = pause_ms / 1000;
  for (const auto& child : json.at("children")) look.children.push_back(child_in(child));
  take(json, "thread_count", look.thread_count);
  for (const auto& thread : json.at("threads")) look.threads.push_back(thread_in(thread));
  take(json, "problems", look.problems);
  take(json, "unfinished", look.unfinished);
  return look;
}

}  // namespace

std::optional<ProcessLook> parse_look(const std::string& text) {
  // The JSON library throws. No exception leaves this function.
  try {
    return look_in(LookJson::parse(text));
  } catch (const LookJson::exception&) {
    return std::nullopt;
  }
}

}  // namespace hvdrun
