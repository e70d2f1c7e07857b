#include "look/python_layout.hpp"

#include <array>
#include <cstring>
#include <span>
#include <string_view>

namespace hvdrun {
namespace {

constexpr std::size_t kMostNumbers = 160;
constexpr std::uint64_t kLargestOffset = 1U << 20U;

PythonLayout frame_object_layout(int minor) {
  PythonLayout layout;
  layout.minor = minor;
  layout.way = FrameWay::object;
  layout.interpreters = 32;
  layout.interpreter_next = 0;
  layout.interpreter_threads = 8;
  layout.thread_frame = 24;
  layout.thread_id = 176;
  layout.frame_previous = 24;
  layout.frame_code = 32;
  layout.frame_at = minor == 9 ? 104 : 96;
  layout.code_file = 104;
  layout.code_name = 112;
  layout.code_lines = 120;
  layout.code_first_line = 40;
  layout.text_ascii_size = 48;
  layout.text_more = 24;
  layout.gil_in_runtime = true;
  layout.gil = 360;
  return layout;
}

PythonLayout layout_of_3_11() {
  PythonLayout layout;
  layout.minor = 11;
  layout.way = FrameWay::c_frame;
  layout.interpreters = 40;
  layout.interpreter_next = 0;
  layout.interpreter_threads = 16;
  layout.thread_frame = 56;
  layout.thread_id = 152;
  layout.thread_native_id = 160;
  layout.c_frame_current = 8;
  layout.frame_previous = 48;
  layout.frame_code = 32;
  layout.frame_at = 56;
  layout.frame_entry = 68;
  layout.frame_owner = 69;
  layout.code_file = 112;
  layout.code_name = 128;
  layout.code_lines = 136;
  layout.code_first_line = 72;
  layout.code_start = 184;
  layout.text_ascii_size = 48;
  layout.text_more = 24;
  layout.gil_in_runtime = true;
  layout.gil = 368;
  return layout;
}

PythonLayout layout_of_3_12() {
  PythonLayout layout;
  layout.minor = 12;
  layout.way = FrameWay::c_frame;
  layout.interpreters = 40;
  layout.interpreter_next = 0;
  layout.interpreter_threads = 72;
  layout.thread_frame = 56;
  layout.thread_id = 136;
  layout.thread_native_id = 144;
  layout.c_frame_current = 0;
  layout.frame_previous = 8;
  layout.frame_code = 0;
  layout.frame_at = 56;
  layout.frame_owner = 70;
  layout.code_file = 112;
  layout.code_name = 128;
  layout.code_lines = 136;
  layout.code_first_line = 68;
  layout.code_start = 192;
  layout.gil = 384;
  layout.gil_holder = 8;
  layout.gil_locked = 16;
  return layout;
}

// The groups of numbers that _PyRuntime begins with, in their order, and how many each has. The
// first number is the cookie, then come the version and whether it is free-threaded.
struct Groups {
  std::size_t interpreter, thread, after_thread, frame, code, after_code, text;
};
// after_code: object, type, (heap type,) tuple, list, (set,) dict, float, long; then bytes.
constexpr Groups kGroups13{13, 9, 0, 6, 10, 2 + 4 + 3 + 3 + 3 + 2 + 3, 4};
constexpr Groups kGroups14{16, 9, 0, 8, 11, 2 + 4 + 3 + 3 + 4 + 3 + 2 + 3, 4};
constexpr Groups kGroups15{16, 16, 1, 8, 11, 2 + 6 + 2 + 3 + 3 + 4 + 3 + 2 + 3, 5};

const Groups& groups_of(int minor) {
  return minor <= 13 ? kGroups13 : minor == 14 ? kGroups14 : kGroups15;
}

}  // namespace

std::optional<PythonLayout> known_python_layout(int minor) {
  if (sizeof(void*) != 8) return std::nullopt;
  if (minor == 9 || minor == 10) return frame_object_layout(minor);
  if (minor == 11) return layout_of_3_11();
  if (minor == 12) return layout_of_3_12();
  return std::nullopt;
}

std::optional<PythonLayout> read_python_layout(const Memory& memory, Address runtime) {
  std::array<std::uint64_t, kMostNumbers> numbers{};
  if (memory.read_some(runtime, numbers.data(), sizeof numbers) < sizeof numbers)
    return std::nullopt;
  if (std::memcmp(numbers.data(), kPythonCookie.data(), kPythonCookie.size()) != 0)
    return std::nullopt;
  PythonLayout layout;
  layout.minor = static_cast<int>((numbers[1] >> 16U) & 0xffU);
  layout.free_threaded = numbers[2] != 0;
  if ((numbers[1] >> 24U) != 3 || layout.minor < 13) return std::nullopt;
  const Groups& groups = groups_of(layout.minor);
  bool sound = true;
  const auto number = [&](std::size_t at) {
    if (numbers.at(at) > kLargestOffset) sound = false;
    return static_cast<std::uint32_t>(numbers.at(at));
  };
  const std::size_t interpreter = 6;
  const std::size_t thread = interpreter + groups.interpreter;
  const std::size_t frame = thread + groups.thread + groups.after_thread;
  const std::size_t code = frame + groups.frame;
  const std::size_t bytes = code + groups.code + groups.after_code;
  const std::size_t text = bytes + 3;
  const std::size_t main_thread = layout.minor >= 14 ? 1 : 0;  // one number more before the others
  const std::size_t profile = layout.minor >= 15 ? 3 : 0;
  layout.interpreters = number(5);
  layout.interpreter_next = number(interpreter + 2);
  layout.interpreter_threads = number(interpreter + 3);
  layout.gil = number(interpreter + 8 + main_thread);
  const std::uint32_t gil = number(interpreter + 9 + main_thread);
  layout.gil_locked = number(interpreter + 11 + main_thread) - gil;
  layout.gil_holder = number(interpreter + 12 + main_thread) - gil;
  layout.thread_next = number(thread + 2);
  layout.thread_interpreter = number(thread + 3);
  layout.thread_frame = number(thread + 4);
  layout.thread_id = number(thread + 5 + profile);
  layout.thread_native_id = number(thread + 6 + profile);
  layout.frame_previous = number(frame + 1);
  layout.frame_code = number(frame + 2);
  layout.frame_at = number(frame + 3);
  layout.frame_owner = number(frame + 5);
  layout.code_file = number(code + 1);
  layout.code_name = number(code + 3);
  layout.code_lines = number(code + 4);
  layout.code_first_line = number(code + 5);
  layout.code_start = number(code + 9);
  if (layout.free_threaded && layout.minor >= 14) {
    layout.frame_code_copy = number(frame + 7);
    layout.code_copies = number(code + 10);
  }
  layout.bytes_size = number(bytes + 1);
  layout.bytes_start = number(bytes + 2);
  layout.text_state = number(text + 1);
  layout.text_length = number(text + 2);
  layout.text_ascii_size = number(text + 3);
  layout.text_kind_bit = layout.free_threaded && layout.minor >= 14 ? 8 : 2;
  if (!sound) return std::nullopt;
  return layout;
}

}  // namespace hvdrun
