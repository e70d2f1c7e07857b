#include "hang/gpu_wait.hpp"

#include "hang/collective_calls.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

namespace hvdrun {
namespace {

using namespace std::string_view_literals;

constexpr std::array kLibraries{"libcuda.so"sv, "libcudart"sv, "libamdhip64"sv};
constexpr std::array kFunctions{"cuda"sv, "cu"sv, "hip"sv};

// Returns whether the function is one of the library's own: "cudaMalloc", "cuMemAlloc_v2".
bool is_public(std::string_view function) {
  return std::ranges::any_of(kFunctions, [&](std::string_view begin) {
    return function.starts_with(begin) && function.size() > begin.size() &&
           function[begin.size()] >= 'A' && function[begin.size()] <= 'Z';
  });
}

bool is_of_gpu(const LookFrame& frame) {
  if (frame.is_python) return false;
  const auto name = std::filesystem::path(frame.library).filename().string();
  return is_public(frame.function) || std::ranges::any_of(kLibraries, [&](std::string_view begin) {
           return name.starts_with(begin);
         });
}

// Returns whether the function always waits. Others, such as a launch, do when a queue is full.
bool always_waits(std::string_view function) {
  if (function.ends_with("Async") || function.find("Async_") != function.npos) return false;
  return function.find("Synchronize") != function.npos || function.find("Memcpy") != function.npos;
}

}  // namespace

std::optional<std::string> find_gpu_wait(const ThreadLook& thread, const std::string& program) {
  bool is_inside = false;
  std::string function;
  for (const auto& frame : thread.stack) {
    if (is_of_gpu(frame)) {
      is_inside = true;
      if (is_public(frame.function)) function = frame.function.substr(0, frame.function.find('('));
    } else if (is_inside || frame.is_python || is_users(frame, program)) {
      break;  // what the GPU's library calls itself, such as a callback, does not wait for it
    }
  }
  if (!is_inside) return std::nullopt;
  const bool stays = thread.movement && !thread.movement->frame_moved;
  if (!stays && !always_waits(function)) return std::nullopt;
  return function;
}

}  // namespace hvdrun
