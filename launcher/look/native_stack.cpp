#include "look/native_stack.hpp"

#include "common/fd.hpp"
#include "look/elf_image.hpp"
#include "look/process_look.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>

#include <cxxabi.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr int kInlinedSubroutine = 0x1d;  // the numbers of DWARF
constexpr unsigned kCallFile = 0x58;
constexpr unsigned kCallLine = 0x59;
constexpr std::size_t kLongestName = 1000;
constexpr std::size_t kKernelPage = 4096;
constexpr std::size_t kManySymbols = 50'000;
constexpr std::string_view kDeleted = " (deleted)";

struct Walk {
  std::vector<std::pair<Address, bool>> addresses;  // and whether it is a call's return address
  std::size_t depth;
  const Libdw& libdw;
};

using Scopes = std::unique_ptr<DwarfDie, decltype(&std::free)>;  // libdw's malloc

int no_file(Dwfl_Module*, void**, const char*, std::uint64_t, char**, Elf**) {
  return -1;
}

// Opens what is mapped. The kernel's own link names the very file, but only root may follow it.
Fd open_mapped(pid_t pid, const Mapping& mapping) {
  const std::string process = "/proc/" + std::to_string(pid);
  std::array<char, 40> name{};
  std::snprintf(name.data(), name.size(), "/map_files/%lx-%lx", mapping.start, mapping.end);
  Fd file(::open((process + name.data()).c_str(), O_RDONLY | O_CLOEXEC));
  if (file || mapping.path.ends_with(kDeleted)) return file;
  return Fd(::open((process + "/root" + mapping.path).c_str(), O_RDONLY | O_CLOEXEC));
}

}  // namespace

std::string demangled(const char* name) {
  if (name == nullptr || *name == '\0') return "?";
  // A symbol may have a version: "clock_nanosleep@GLIBC_2.2.5".
  if (std::strncmp(name, "_Z", 2) != 0)
    return std::string(name).substr(0, std::string_view(name).find('@', 1));
  if (std::strlen(name) > 4 * kLongestName) return name;
  int status = 0;
  char* plain = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string text = plain != nullptr && status == 0 ? plain : name;
  std::free(plain);  // NOLINT: malloc of __cxa_demangle
  if (text.size() > kLongestName) text = text.substr(0, kLongestName) + "…";
  return text;
}

Result<std::unique_ptr<NativeStacks>, std::string> NativeStacks::open(
    pid_t pid, const Memory& memory, const std::vector<Mapping>& mappings) {
  if (!kCanUnwind) return std::string("native stacks are not read on this processor");
  auto library = Libdw::load();
  if (!library) return library.error();
  ::unsetenv("DEBUGINFOD_URLS");
  std::unique_ptr<NativeStacks> stacks(new NativeStacks(*library));
  const auto& libdw = stacks->libdw_;
  stacks->callbacks_.find_elf = no_file;
  stacks->callbacks_.find_debuginfo = libdw.dwfl_standard_find_debuginfo;
  stacks->dwfl_ = libdw.dwfl_begin(&stacks->callbacks_);
  if (stacks->dwfl_ == nullptr) return std::string("libdw: ") + libdw.dwfl_errmsg(-1);
  stacks->report(pid, memory, mappings);
  stacks->thread_callbacks_.next_thread = next_thread;
  stacks->thread_callbacks_.get_thread = get_thread;
  stacks->thread_callbacks_.memory_read = read_memory;
  stacks->thread_callbacks_.set_initial_registers = set_registers;
  if (!libdw.dwfl_attach_state(stacks->dwfl_, nullptr, pid, &stacks->thread_callbacks_,
                               stacks.get()))
    return std::string("the files of this process cannot be read: ") + libdw.dwfl_errmsg(-1);
  return stacks;
}

NativeStacks::~NativeStacks() {
  if (dwfl_ != nullptr) libdw_.dwfl_end(dwfl_);
}

void NativeStacks::report(pid_t pid, const Memory& memory, const std::vector<Mapping>& mappings) {
  std::set<std::pair<std::string, std::uint64_t>> executable;
  for (const auto& mapping : mappings)
    if (mapping.executable && mapping.inode != 0) executable.emplace(mapping.path, mapping.inode);
  libdw_.dwfl_report_begin(dwfl_);
  for (const auto& mapping : mappings) {
    if (mapping.path == "[vdso]") report_kernel_page(mapping.start);
    if (mapping.offset != 0 || !executable.contains({mapping.path, mapping.inode})) continue;
    const auto image = ElfImage::at(memory, mapping.start);
    Fd file = image ? open_mapped(pid, mapping) : Fd();
    if (!file) continue;
    auto* module = libdw_.dwfl_report_elf(dwfl_, mapping.path.c_str(), mapping.path.c_str(),
                                          file.get(), image->bias(), true);
    if (module == nullptr) continue;
    files_[module] = {mapping.path, Fd(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0)), image->bias()};
    file.release();  // NOLINT: libdw closes it
  }
  libdw_.dwfl_report_end(dwfl_, nullptr, nullptr);
}

// The kernel gives every process the same page of code, so ours is theirs.
void NativeStacks::report_kernel_page(Address start) {
  const auto own = ::getauxval(AT_SYSINFO_EHDR);
  if (own == 0) return;
  Fd file(::memfd_create("vdso", MFD_CLOEXEC));
  const Memory memory(::getpid());
  std::vector<char> page(2 * kKernelPage);
  page.resize(memory.read_some(own, page.data(), page.size()));
  if (!file || ::write(file.get(), page.data(), page.size()) != static_cast<ssize_t>(page.size()))
    return;
  auto* module = libdw_.dwfl_report_elf(dwfl_, "[vdso]", "[vdso]", file.get(), start, true);
  if (module == nullptr) return;
  file.release();  // NOLINT: libdw closes it
  files_[module].path = "[vdso]";
}

pid_t NativeStacks::next_thread(Dwfl* /*dwfl*/, void* self, void** thread) {
  if (*thread != nullptr) return 0;
  *thread = self;
  return static_cast<NativeStacks*>(self)->tid_;
}

bool NativeStacks::get_thread(Dwfl* /*dwfl*/, pid_t tid, void* self, void** thread) {
  *thread = self;
  return static_cast<NativeStacks*>(self)->tid_ == tid;
}

bool NativeStacks::read_memory(Dwfl* /*dwfl*/, std::uint64_t at, std::uint64_t* word, void* self) {
  const auto& thread = *static_cast<NativeStacks*>(self)->thread_;
  if (at < thread.stack_start) return false;
  const std::uint64_t offset = at - thread.stack_start;
  if (thread.stack.size() < sizeof *word || offset > thread.stack.size() - sizeof *word)
    return false;
  std::memcpy(word, thread.stack.data() + offset, sizeof *word);
  return true;
}

bool NativeStacks::set_registers(Dwfl_Thread* thread, void* self) {
  const auto& stacks = *static_cast<NativeStacks*>(self);
  const Registers& registers = *stacks.thread_->registers;
  stacks.libdw_.dwfl_thread_state_register_pc(thread, registers.at);
  return stacks.libdw_.dwfl_thread_state_registers(
      thread, 0, static_cast<unsigned>(registers.values.size()), registers.values.data());
}

int NativeStacks::on_frame(Dwfl_Frame* frame, void* argument) {
  constexpr int kGoOn = 0;
  constexpr int kEnough = 1;
  auto& walk = *static_cast<Walk*>(argument);
  std::uint64_t at = 0;
  bool is_activation = false;
  if (!walk.libdw.dwfl_frame_pc(frame, &at, &is_activation)) return kEnough;
  walk.addresses.emplace_back(at, !is_activation);
  return walk.addresses.size() >= walk.depth ? kEnough : kGoOn;
}

// Returns where the thread is in each of its functions, the innermost first.
std::vector<Address> NativeStacks::walk(pid_t tid, const ThreadSnapshot& thread, std::size_t depth,
                                        bool& complete) {
  std::vector<Address> places;
  if (!thread.registers) return places;
  tid_ = tid;
  thread_ = &thread;
  Walk walk{{}, depth, libdw_};
  complete = libdw_.dwfl_getthread_frames(dwfl_, tid, on_frame, &walk) == 0;
  for (const auto& [at, is_return] : walk.addresses)
    if (at != 0) places.push_back(is_return ? at - 1 : at);
  return places;
}

std::map<pid_t, NativeStack> NativeStacks::unwind(const std::map<pid_t, ThreadSnapshot>& threads,
                                                  std::size_t depth) {
  std::map<pid_t, NativeStack> stacks;
  std::map<pid_t, std::vector<Address>> places;
  std::set<Address> all;
  for (const auto& [tid, thread] : threads) {
    places[tid] = walk(tid, thread, depth, stacks[tid].complete);
    all.insert(places[tid].begin(), places[tid].end());
  }
  name_in_large_files(all);
  for (const auto& [tid, addresses] : places)
    for (const Address address : addresses) stacks[tid].frames.push_back(frame_at(address));
  return stacks;
}

// libdw goes through all symbols of a file for each address: 20 ms with the million of TensorFlow.
void NativeStacks::name_in_large_files(const std::set<Address>& addresses) {
  std::map<ModuleFile*, std::set<Address>> by_file;
  for (const Address address : addresses) {
    if (known_.contains(address)) continue;
    const auto at = files_.find(libdw_.dwfl_addrmodule(dwfl_, address));
    if (at != files_.end() && at->second.has_many_symbols)
      by_file[&at->second].insert(address - at->second.bias);
  }
  for (auto& [file, wanted] : by_file) {
    const auto names = functions_in_file(file->file.get(), wanted, kManySymbols);
    file->has_many_symbols = names.has_value();
    if (!names) continue;
    for (const auto& [at, name] : *names) names_[at + file->bias] = name;
  }
}

std::string NativeStacks::function_at(Dwfl_Module* module, Address address) {
  if (const auto name = names_.find(address); name != names_.end())
    return demangled(name->second.c_str());
  if (files_[module].has_many_symbols) return "?";
  std::uint64_t offset = 0;
  DwflSymbol symbol{};
  return demangled(
      libdw_.dwfl_module_addrinfo(module, address, &offset, &symbol, nullptr, nullptr, nullptr));
}

NativeFrame NativeStacks::frame_at(Address address) {
  const auto [at, is_new] = known_.try_emplace(address);
  NativeFrame& frame = at->second;
  if (!is_new) return frame;
  frame.function = "?";
  auto* module = libdw_.dwfl_addrmodule(dwfl_, address);
  if (module == nullptr) return frame;
  frame.library = files_[module].path;
  frame.function = function_at(module, address);
  if (auto* line = libdw_.dwfl_module_getsrc(module, address)) {
    const char* file = libdw_.dwfl_lineinfo(line, nullptr, &frame.line, nullptr, nullptr, nullptr);
    if (file != nullptr) frame.file = file;
    if (is_system_header(frame.file)) leave_headers(module, address, frame);
  }
  return frame;
}

// A function of a system's header was inlined here: takes the line of the user's that calls it.
void NativeStacks::leave_headers(Dwfl_Module* module, Address address, NativeFrame& frame) {
  std::uint64_t bias = 0;
  auto* unit = libdw_.dwfl_module_addrdie(module, address, &bias);
  Dwarf_Files* files = nullptr;
  if (unit == nullptr || libdw_.dwarf_getsrcfiles(unit, &files, nullptr) != 0) return;
  DwarfDie* found = nullptr;
  if (libdw_.dwarf_getscopes(unit, address - bias, &found) <= 0) return;
  const Scopes innermost(found, std::free);
  // The scopes around it in the code, not around its definition.
  const int count = libdw_.dwarf_getscopes_die(innermost.get(), &found);
  if (count <= 0) return;
  const Scopes scopes(found, std::free);
  const auto number = [this](DwarfDie* scope, unsigned name) {
    DwarfAttribute attribute{};
    std::uint64_t value = 0;
    const bool has = libdw_.dwarf_attr(scope, name, &attribute) != nullptr &&
                     libdw_.dwarf_formudata(&attribute, &value) == 0;
    return has ? value : 0;
  };
  for (int index = 0; index < count; ++index) {
    auto* scope = scopes.get() + index;
    if (libdw_.dwarf_tag(scope) != kInlinedSubroutine) continue;
    const char* file = libdw_.dwarf_filesrc(files, number(scope, kCallFile), nullptr, nullptr);
    if (file == nullptr || is_system_header(file)) continue;
    frame.file = file;
    frame.line = static_cast<int>(number(scope, kCallLine));
    return;
  }
}

}  // namespace hvdrun
