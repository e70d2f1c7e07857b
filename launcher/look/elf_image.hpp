// A library or program as it lies in another process's memory: where it was loaded, its segments
// and its dynamic symbols. Needs no file. What is not in memory, a section, is read from the file.
// Any thread. Images that are damaged have no values.
//
// Source: System V ABI, chapter 5; the GNU hash table of symbols as glibc reads it.
#pragma once

#include "look/memory.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hvdrun {

class ElfImage {
 public:
  // `start`: where the file's first byte lies. Returns nullopt if there is no ELF header of this
  // processor's word size.
  static std::optional<ElfImage> at(const Memory& memory, Address start);

  // The difference between an address in memory and the one in the file.
  Address bias() const { return bias_; }

  // Returns where a dynamic symbol lies. Returns nullopt if the image does not define it.
  std::optional<Address> symbol(const std::string& name) const;

  // Returns the parts that can be written: their start and size.
  const std::vector<std::pair<Address, Address>>& data() const { return data_; }

 private:
  explicit ElfImage(const Memory& memory) : memory_(&memory) {}
  Address dynamic_pointer(Address value) const;
  std::optional<Address> find_by_gnu_hash(const std::string& name) const;
  std::optional<Address> find_by_old_hash(const std::string& name) const;
  std::optional<Address> value_of(std::uint32_t index, const std::string& name) const;

  const Memory* memory_;
  Address bias_ = 0;
  Address start_ = 0;
  std::vector<std::pair<Address, Address>> data_;
  Address symbols_ = 0;
  Address names_ = 0;
  Address gnu_hash_ = 0;
  Address old_hash_ = 0;
};

// Returns the address in the file of a section, or of a symbol of the table that debuggers use.
// Returns nullopt if the file has neither, or cannot be read.
std::optional<Address> find_in_file(const std::string& file, const std::string& section,
                                    const std::string& symbol);

// Returns the names of the functions in which addresses of an open file lie, by the table of
// symbols that debuggers use. An address in none is missing. Returns nullopt if the file has no
// such table, or one with fewer than `least` symbols. Reads the table once, however many addresses.
std::optional<std::map<Address, std::string>> functions_in_file(int file,
                                                                const std::set<Address>& addresses,
                                                                std::size_t least);

}  // namespace hvdrun
