#include "look/python_stack.hpp"

#include "look/elf_image.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <regex>
#include <set>

namespace hvdrun {
namespace {

constexpr int kMostInterpreters = 64;
constexpr int kMostThreads = 5000;
constexpr std::uint8_t kFirstOwnerWithoutCode = 3;  // the interpreter's own frames
constexpr std::size_t kFrameBytes = 128;
constexpr Address kMostData = 64U << 20U;

struct Candidate {
  Address start;
  std::string file;
};

// Returns where the interpreter may be: libraries of Python first, then programs.
std::vector<Candidate> candidates(pid_t pid, const std::vector<Mapping>& mappings) {
  const std::string program = read_proc_link(pid, "exe");
  std::vector<Candidate> found;
  for (const auto& mapping : mappings) {
    if (mapping.offset != 0 || mapping.inode == 0) continue;
    const std::string name = std::filesystem::path(mapping.path).filename();
    const bool is_library = name.starts_with("libpython3");
    const auto place = is_library ? found.begin() : found.end();
    const bool is_program = mapping.path == program || name.starts_with("python3");
    if (is_library || is_program) found.insert(place, {mapping.start, mapping.path});
  }
  return found;
}

// Returns N of the "python3.N" that the most files of the process have in their paths; 0: none.
int minor_by_names(const std::vector<Mapping>& mappings) {
  static const std::regex kName("python3\\.([0-9]+)");
  std::array<int, 64> votes{};
  for (const auto& mapping : mappings) {
    std::smatch match;
    if (mapping.path.empty() || !std::regex_search(mapping.path, match, kName)) continue;
    const int minor = std::atoi(match[1].str().c_str());  // NOLINT: digits
    if (minor < static_cast<int>(votes.size())) ++votes.at(static_cast<std::size_t>(minor));
  }
  const auto* most = std::max_element(votes.begin(), votes.end());
  return *most == 0 ? 0 : static_cast<int>(most - votes.begin());
}

// Returns where the cookie lies in the image's data.
std::optional<Address> find_cookie(const Memory& memory, const ElfImage& image) {
  for (const auto& [start, size] : image.data()) {
    std::string part(std::min(size, kMostData), '\0');
    part.resize(memory.read_some(start, part.data(), part.size()));
    for (auto at = part.find(kPythonCookie); at != std::string::npos;
         at = part.find(kPythonCookie, at + 1))
      if (at % 8 == 0 && read_python_layout(memory, start + at)) return start + at;
  }
  return std::nullopt;
}

// Returns the version from the text that sys.version has, "3.11.2 (main, Apr 28 2025) [GCC …",
// which the interpreter keeps in its data; "" if it is not there.
std::string find_version(const Memory& memory, const ElfImage& image) {
  static const std::regex kVersion("(3\\.[0-9]{1,2}\\.[0-9]{1,2})[^ ]* \\([^)]*\\) \n?\\[.*");
  constexpr std::size_t kLongest = 250;
  for (const auto& [start, size] : image.data()) {
    std::string part(std::min(size, kMostData), '\0');
    part.resize(memory.read_some(start, part.data(), part.size()));
    for (auto at = part.find("3."); at != std::string::npos; at = part.find("3.", at + 1)) {
      const std::string text = part.substr(at, std::min(kLongest, part.find('\0', at) - at));
      std::smatch match;
      if (std::regex_match(text, match, kVersion)) return match[1];
    }
  }
  return {};
}

std::optional<Address> find_runtime(pid_t pid, const Memory& memory, const ElfImage& image,
                                    const std::string& file) {
  if (const auto symbol = image.symbol("_PyRuntime")) return symbol;
  if (const auto cookie = find_cookie(memory, image)) return cookie;
  const std::string path = "/proc/" + std::to_string(pid) + "/root" + file;
  if (const auto in_file = find_in_file(path, ".PyRuntime", "_PyRuntime"))
    return image.bias() + *in_file;
  return std::nullopt;
}

// Returns 11 for "3.11.2"; 0 for "".
int minor_of(const std::string& version) {
  return version.starts_with("3.") ? std::atoi(version.c_str() + 2) : 0;  // NOLINT: digits
}

std::string version_text(std::uint32_t hex) {
  return std::to_string(hex >> 24U) + "." + std::to_string((hex >> 16U) & 0xffU) + "." +
         std::to_string((hex >> 8U) & 0xffU);
}

}  // namespace

Result<std::optional<PythonProcess>, std::string> PythonProcess::find(
    pid_t pid, const Memory& memory, const std::vector<Mapping>& mappings) {
  for (const auto& [start, file] : candidates(pid, mappings)) {
    const auto image = ElfImage::at(memory, start);
    const auto runtime = image ? find_runtime(pid, memory, *image, file) : std::nullopt;
    if (!runtime) continue;
    PythonProcess process(memory);
    process.runtime_ = *runtime;
    process.file_ = file;
    if (const auto symbol = image->symbol("Py_Version"))
      process.version_ =
          version_text(static_cast<std::uint32_t>(memory.get<std::uint64_t>(*symbol).value_or(0)));
    else
      process.version_ = find_version(memory, *image);
    int minor = minor_of(process.version_);
    if (minor == 0) minor = minor_by_names(mappings);
    if (minor != 0 && (minor < kOldestPython || minor > kNewestPython))
      return "this is Python 3." + std::to_string(minor) + "; stacks are read of 3." +
             std::to_string(kOldestPython) + " to 3." + std::to_string(kNewestPython);
    auto layout = read_python_layout(memory, *runtime);
    if (!layout) layout = known_python_layout(minor);
    if (!layout) return std::string("the version of this Python is not known");
    process.layout_ = *layout;
    if (process.version_.empty()) process.version_ = "3." + std::to_string(layout->minor);
    if (!process.check()) return std::string("Python's list of threads cannot be read");
    return std::optional(std::move(process));
  }
  if (minor_by_names(mappings) != 0 && !candidates(pid, mappings).empty())
    return std::string(
        "the files of this process are those of Python, but _PyRuntime was not found");
  return std::optional<PythonProcess>();
}

bool PythonProcess::is_sound(std::uint32_t interpreters, std::uint32_t threads) const {
  const Address interpreter = memory_->pointer(runtime_ + interpreters);
  const Address state = interpreter == 0 ? 0 : memory_->pointer(interpreter + threads);
  return state != 0 && memory_->pointer(state + layout_.thread_interpreter) == interpreter;
}

// A thread must name its interpreter. If it does not, another processor's locks have another size:
// looks for the place near by.
bool PythonProcess::check() {
  constexpr std::uint32_t kNear = 128;
  if (is_sound(layout_.interpreters, layout_.interpreter_threads)) return true;
  if (memory_->pointer(runtime_ + layout_.interpreters) == 0) return false;  // it starts or ends
  for (std::uint32_t at = 0; at < layout_.interpreters + kNear; at += 8)
    for (std::uint32_t threads = 0; threads < layout_.interpreter_threads + kNear; threads += 8)
      if (is_sound(at, threads)) {
        layout_.interpreters = at;
        layout_.interpreter_threads = threads;
        return true;
      }
  return false;
}

Address PythonProcess::gil_holder(Address interpreter) const {
  if (layout_.free_threaded) return 0;
  const Address gil =
      layout_.gil_in_runtime ? runtime_ + layout_.gil : memory_->pointer(interpreter + layout_.gil);
  if (gil == 0) return 0;
  const auto locked = memory_->get<std::int32_t>(gil + layout_.gil_locked);
  return locked == 1 ? memory_->pointer(gil + layout_.gil_holder) : 0;
}

PythonThread PythonProcess::read_thread(Address state, std::size_t depth) const {
  PythonThread thread;
  thread.id = memory_->pointer(state + layout_.thread_id);
  if (layout_.thread_native_id != kMissing)
    thread.native_id = static_cast<pid_t>(memory_->pointer(state + layout_.thread_native_id));
  Address frame = memory_->pointer(state + layout_.thread_frame);
  if (layout_.way == FrameWay::c_frame && frame != 0)
    frame = memory_->pointer(frame + layout_.c_frame_current);
  // The interpreter's own frames are not counted, but bounded too.
  std::set<Address> seen;
  for (std::size_t steps = 0; frame != 0; ++steps) {
    std::array<std::uint8_t, kFrameBytes> bytes{};
    if (thread.frames.size() >= depth || steps > 2 * depth + 2 || !seen.insert(frame).second ||
        memory_->read_some(frame, bytes.data(), bytes.size()) < kFrameBytes / 2) {
      thread.complete = false;
      break;
    }
    const auto pointer = [&bytes](std::uint32_t at) {
      Address value = 0;
      if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
      return value;
    };
    const auto byte = [&bytes](std::uint32_t at) {
      return at < bytes.size() ? bytes.at(at) : std::uint8_t{0};
    };
    const bool own = layout_.minor >= 12 && layout_.frame_owner != kMissing &&
                     byte(layout_.frame_owner) >= kFirstOwnerWithoutCode;
    if (own) {
      if (!thread.frames.empty()) thread.frames.back().entry = true;
    } else {
      PythonFrame read;
      read.code = pointer(layout_.frame_code) & ~Address{7};
      read.at = pointer(layout_.frame_at);
      if (layout_.frame_code_copy != kMissing)
        read.copy = static_cast<int>(pointer(layout_.frame_code_copy) & 0x7fffffffU);
      read.entry = layout_.way == FrameWay::object ||
                   (layout_.frame_entry != kMissing && byte(layout_.frame_entry) != 0);
      thread.frames.push_back(read);
    }
    frame = pointer(layout_.frame_previous);
  }
  if (!thread.frames.empty() && thread.complete) thread.frames.back().entry = true;
  return thread;
}

std::vector<PythonThread> PythonProcess::threads(
    std::size_t depth, std::chrono::steady_clock::time_point deadline) const {
  std::vector<PythonThread> threads;
  std::set<Address> seen;  // lists of a damaged process may be rings
  Address interpreter = memory_->pointer(runtime_ + layout_.interpreters);
  for (int count = 0; interpreter != 0 && count < kMostInterpreters; ++count) {
    const Address holder = gil_holder(interpreter);
    Address state = memory_->pointer(interpreter + layout_.interpreter_threads);
    while (state != 0 && threads.size() < kMostThreads && seen.insert(state).second) {
      if (std::chrono::steady_clock::now() > deadline) return threads;
      threads.push_back(read_thread(state, depth));
      threads.back().holds_gil = state == holder;
      state = memory_->pointer(state + layout_.thread_next);
    }
    interpreter = memory_->pointer(interpreter + layout_.interpreter_next);
  }
  return threads;
}

}  // namespace hvdrun
