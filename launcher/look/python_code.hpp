// What a code object of CPython says: the function, its file, and the line of an instruction. Reads
// the process's memory; whatever is garbage becomes "?". Any thread.
//
// Source: PEP 626; Objects/locations.md and Objects/lnotab_notes.txt of CPython.
#pragma once

#include "look/memory.hpp"
#include "look/python_layout.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hvdrun {

// A frame as it was read while its thread was stopped.
struct PythonFrame {
  Address code = 0;
  Address at = 0;      // its last instruction: a number, or a pointer
  int copy = 0;        // which of the code's copies it runs
  bool entry = false;  // the function that called it is one in C
};

struct PythonPlace {
  std::string function;
  std::string file;
  int line = 0;  // 0: unknown
};

// Returns the line of an instruction, by its offset in bytes, from a table of that version.
int python_line(int minor, const std::vector<std::uint8_t>& table, int first_line, long offset);

class PythonCode {
 public:
  PythonCode(const Memory& memory, const PythonLayout& layout)
      : memory_(&memory), layout_(layout) {}

  PythonPlace place_of(const PythonFrame& frame);

 private:
  struct Code {
    std::string function;
    std::string file;
    int first_line = 0;
    std::vector<std::uint8_t> lines;
  };
  const Code& code_at(Address address);
  std::string text_at(Address object) const;
  long offset_of(const PythonFrame& frame) const;

  const Memory* memory_;
  PythonLayout layout_;
  std::map<Address, Code> known_;
};

}  // namespace hvdrun
