// elfutils' libdw, opened at run time, for native stacks. Declares the functions that
// native_stack.cpp uses, by elfutils/libdwfl.h and libdw.h; they are the same since elfutils 0.158.
// So neither the build nor a machine without it needs elfutils. load() for any thread.
#pragma once

#include "common/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

#include <sys/types.h>

struct Dwarf_Files;
struct Dwfl;
struct Dwfl_Frame;
struct Dwfl_Line;
struct Dwfl_Module;
struct Dwfl_Thread;
struct Elf;

namespace hvdrun {

struct DwflCallbacks {
  int (*find_elf)(Dwfl_Module*, void**, const char*, std::uint64_t, char**, Elf**);
  int (*find_debuginfo)(Dwfl_Module*, void**, const char*, std::uint64_t, const char*, const char*,
                        std::uint32_t, char**);
  int (*section_address)(Dwfl_Module*, void**, const char*, std::uint64_t, const char*,
                         std::uint32_t, const void*, std::uint64_t*);
  char** debuginfo_path;
};

struct DwflThreadCallbacks {
  pid_t (*next_thread)(Dwfl*, void*, void**);
  bool (*get_thread)(Dwfl*, pid_t, void*, void**);
  bool (*memory_read)(Dwfl*, std::uint64_t, std::uint64_t*, void*);
  bool (*set_initial_registers)(Dwfl_Thread*, void*);
  void (*detach)(Dwfl*, void*);
  void (*thread_detach)(Dwfl_Thread*, void*);
};

// A symbol as elf.h has it for 64 bits, which libdw uses for all.
struct DwflSymbol {
  std::uint32_t name;
  unsigned char info;
  unsigned char other;
  std::uint16_t section;
  std::uint64_t value;
  std::uint64_t size;
};

// A node of a program's debug information, and one of its values.
struct DwarfDie {
  void* at;
  void* unit;
  void* abbreviation;
  long padding;
};
struct DwarfAttribute {
  unsigned code;
  unsigned form;
  unsigned char* at;
  void* unit;
};

// The functions: X(name, type of the result, parameters).
#define HVD_LIBDW_FUNCTIONS(X)                                                                  \
  X(dwarf_attr, DwarfAttribute*, (DwarfDie*, unsigned, DwarfAttribute*))                        \
  X(dwarf_filesrc, const char*, (Dwarf_Files*, std::size_t, std::uint64_t*, std::uint64_t*))    \
  X(dwarf_formudata, int, (DwarfAttribute*, std::uint64_t*))                                    \
  X(dwarf_getscopes, int, (DwarfDie*, std::uint64_t, DwarfDie**))                               \
  X(dwarf_getscopes_die, int, (DwarfDie*, DwarfDie**))                                          \
  X(dwarf_getsrcfiles, int, (DwarfDie*, Dwarf_Files**, std::size_t*))                           \
  X(dwarf_tag, int, (DwarfDie*))                                                                \
  X(dwfl_addrmodule, Dwfl_Module*, (Dwfl*, std::uint64_t))                                      \
  X(dwfl_attach_state, bool, (Dwfl*, Elf*, pid_t, const DwflThreadCallbacks*, void*))           \
  X(dwfl_begin, Dwfl*, (const DwflCallbacks*))                                                  \
  X(dwfl_end, void, (Dwfl*))                                                                    \
  X(dwfl_errmsg, const char*, (int))                                                            \
  X(dwfl_frame_pc, bool, (Dwfl_Frame*, std::uint64_t*, bool*))                                  \
  X(dwfl_getthread_frames, int, (Dwfl*, pid_t, int (*)(Dwfl_Frame*, void*), void*))             \
  X(dwfl_lineinfo, const char*,                                                                 \
    (Dwfl_Line*, std::uint64_t*, int*, int*, std::uint64_t*, std::uint64_t*))                   \
  X(dwfl_module_addrdie, DwarfDie*, (Dwfl_Module*, std::uint64_t, std::uint64_t*))              \
  X(dwfl_module_addrinfo, const char*,                                                          \
    (Dwfl_Module*, std::uint64_t, std::uint64_t*, DwflSymbol*, std::uint32_t*, Elf**,           \
     std::uint64_t*))                                                                           \
  X(dwfl_module_getsrc, Dwfl_Line*, (Dwfl_Module*, std::uint64_t))                              \
  X(dwfl_report_begin, void, (Dwfl*))                                                           \
  X(dwfl_report_elf, Dwfl_Module*, (Dwfl*, const char*, const char*, int, std::uint64_t, bool)) \
  X(dwfl_report_end, int,                                                                       \
    (Dwfl*, int (*)(Dwfl_Module*, void*, const char*, std::uint64_t, void*), void*))            \
  X(dwfl_standard_find_debuginfo, int,                                                          \
    (Dwfl_Module*, void**, const char*, std::uint64_t, const char*, const char*, std::uint32_t, \
     char**))                                                                                   \
  X(dwfl_thread_state_register_pc, void, (Dwfl_Thread*, std::uint64_t))                         \
  X(dwfl_thread_state_registers, bool, (Dwfl_Thread*, int, unsigned, const std::uint64_t*))

struct Libdw {
#define HVD_LIBDW_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  HVD_LIBDW_FUNCTIONS(HVD_LIBDW_MEMBER)
#undef HVD_LIBDW_MEMBER

  // Opens libdw.so.1, which stays open. Error: it is not installed, or lacks a function; the text
  // names the package.
  static Result<Libdw, std::string> load();
};

}  // namespace hvdrun
