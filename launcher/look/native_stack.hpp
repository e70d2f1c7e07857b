// Native stacks, unwound by libdw from copies of registers and stacks: the process runs meanwhile.
// Opens the program's and its libraries' files, and what debug information this machine has of
// them; never asks a debuginfod server. One thread.
#pragma once

#include "common/fd.hpp"
#include "common/result.hpp"
#include "look/libdw.hpp"
#include "look/memory.hpp"
#include "look/proc_files.hpp"
#include "look/process_snapshot.hpp"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

struct NativeFrame {
  std::string function;  // "?" if it has no name
  std::string library;   // the path of the file that it is in; "" if none
  std::string file;      // of its source; "" if there is no debug information
  int line = 0;
};

struct NativeStack {
  std::vector<NativeFrame> frames;  // the innermost first
  bool complete = false;            // up to the thread's start
};

class NativeStacks {
 public:
  // Error: libdw is missing, or this processor's stacks are not read.
  static Result<std::unique_ptr<NativeStacks>, std::string> open(
      pid_t pid, const Memory& memory, const std::vector<Mapping>& mappings);
  ~NativeStacks();
  NativeStacks(const NativeStacks&) = delete;
  NativeStacks& operator=(const NativeStacks&) = delete;

  // Returns the stacks of threads.
  std::map<pid_t, NativeStack> unwind(const std::map<pid_t, ThreadSnapshot>& threads,
                                      std::size_t depth);

 private:
  explicit NativeStacks(const Libdw& library) : libdw_(library) {}
  void report(pid_t pid, const Memory& memory, const std::vector<Mapping>& mappings);
  void report_kernel_page(Address start);
  std::vector<Address> walk(pid_t tid, const ThreadSnapshot& thread, std::size_t depth,
                            bool& complete);
  void name_in_large_files(const std::set<Address>& addresses);
  NativeFrame frame_at(Address address);
  std::string function_at(Dwfl_Module* module, Address address);
  void leave_headers(Dwfl_Module* module, Address address, NativeFrame& frame);
  static int on_frame(Dwfl_Frame* frame, void* walk);
  static pid_t next_thread(Dwfl* dwfl, void* self, void** thread);
  static bool get_thread(Dwfl* dwfl, pid_t tid, void* self, void** thread);
  static bool read_memory(Dwfl* dwfl, std::uint64_t at, std::uint64_t* word, void* self);
  static bool set_registers(Dwfl_Thread* thread, void* self);

  Libdw libdw_;
  DwflCallbacks callbacks_{};
  DwflThreadCallbacks thread_callbacks_{};
  Dwfl* dwfl_ = nullptr;
  struct ModuleFile {
    std::string path;
    Fd file;
    Address bias = 0;
    bool has_many_symbols = true;  // as far as known
  };
  std::map<Dwfl_Module*, ModuleFile> files_;
  std::map<Address, std::string> names_;  // of functions in files with many symbols
  std::map<Address, NativeFrame> known_;
  pid_t tid_ = 0;
  const ThreadSnapshot* thread_ = nullptr;
};

// Returns a C++ name as a person would write it; other names unchanged.
std::string demangled(const char* name);

}  // namespace hvdrun
