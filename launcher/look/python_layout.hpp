// Where CPython keeps what a stack needs: offsets in its structures. From 3.13 on the interpreter
// has them itself, at the start of _PyRuntime; for 3.9 to 3.12 they are in a table here. Pure
// functions, for any thread.
//
// Source: the headers of each version, Include/internal/pycore_*.h, for 64-bit processors.
#pragma once

#include "look/memory.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace hvdrun {

inline constexpr int kOldestPython = 9;   // 3.9
inline constexpr int kNewestPython = 15;  // 3.15

// What _PyRuntime begins with from 3.13 on.
inline constexpr std::string_view kPythonCookie = "xdebugpy";

inline constexpr std::uint32_t kMissing = 0xffffffff;

// How a thread's state leads to its innermost frame.
enum class FrameWay {
  object,   // a frame object, each with a C frame of its own
  c_frame,  // a structure on the C stack
  direct,   // a pointer
};

struct PythonLayout {
  int minor = 0;
  bool free_threaded = false;
  FrameWay way = FrameWay::direct;
  std::uint32_t interpreters = 0;  // in _PyRuntime
  std::uint32_t interpreter_next = 0;
  std::uint32_t interpreter_threads = 0;
  std::uint32_t thread_next = 8;
  std::uint32_t thread_interpreter = 16;
  std::uint32_t thread_frame = 0;
  std::uint32_t thread_id = 0;
  std::uint32_t thread_native_id = kMissing;
  std::uint32_t c_frame_current = 0;
  std::uint32_t frame_previous = 0;
  std::uint32_t frame_code = 0;
  std::uint32_t frame_at = 0;  // its last instruction: a number, or a pointer
  std::uint32_t frame_owner = kMissing;
  std::uint32_t frame_entry = kMissing;
  std::uint32_t frame_code_copy = kMissing;  // which of the code's copies it runs
  std::uint32_t code_file = 0;
  std::uint32_t code_name = 0;
  std::uint32_t code_lines = 0;
  std::uint32_t code_first_line = 0;
  std::uint32_t code_start = 0;
  std::uint32_t code_copies = kMissing;
  std::uint32_t text_length = 16;
  std::uint32_t text_state = 32;
  std::uint32_t text_kind_bit = 2;
  std::uint32_t text_ascii_size = 40;
  std::uint32_t text_more = 16;  // what a text that is not ASCII has more
  std::uint32_t bytes_size = 16;
  std::uint32_t bytes_start = 32;
  // Which thread holds the lock of the interpreter.
  bool gil_in_runtime = false;
  std::uint32_t gil = 0;  // in _PyRuntime, or a pointer in the interpreter
  std::uint32_t gil_holder = 0;
  std::uint32_t gil_locked = 8;
};

// Returns the layout of 3.9 to 3.12; nullopt for others.
std::optional<PythonLayout> known_python_layout(int minor);

// Reads the layout that _PyRuntime begins with; nullopt if it has none.
std::optional<PythonLayout> read_python_layout(const Memory& memory, Address runtime);

}  // namespace hvdrun
