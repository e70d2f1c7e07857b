#include "look/elf_image.hpp"

#include "common/fd.hpp"
#include "common/result.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using Header = ElfW(Ehdr);
using Program = ElfW(Phdr);
using Dynamic = ElfW(Dyn);
using Symbol = ElfW(Sym);
using Section = ElfW(Shdr);

constexpr std::size_t kMostPrograms = 64;
constexpr std::size_t kMostDynamic = 256;
constexpr std::size_t kMostSections = 1000;
constexpr std::uint32_t kMostInChain = 100'000;
constexpr std::size_t kMostName = 256;
constexpr std::size_t kMostSymbolName = 4096;
constexpr std::size_t kSymbolsAtOnce = 1U << 16U;
constexpr std::size_t kMostTable = 256U << 20U;
constexpr Address kPage = 4096;
constexpr unsigned kWordBits = 8 * sizeof(ElfW(Addr));

bool is_header(const Header& header) {
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         header.e_ident[EI_CLASS] == (sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32);
}

template <class T>
std::vector<T> read_table(int file, std::uint64_t offset, std::size_t count) {
  if (count > kMostTable / sizeof(T)) return {};
  std::vector<T> table(count);
  const std::size_t size = count * sizeof(T);
  if (::pread(file, table.data(), size, static_cast<off_t>(offset)) != static_cast<ssize_t>(size))
    return {};
  return table;
}

std::string_view name_at(const std::vector<char>& names, std::size_t at) {
  if (at >= names.size()) return {};
  const char* start = names.data() + at;
  return {start, ::strnlen(start, names.size() - at)};
}

// Returns the sections of a file; none if it is damaged.
std::vector<Section> sections_of(int file) {
  Header header{};
  if (::pread(file, &header, sizeof header, 0) != sizeof header || !is_header(header)) return {};
  return read_table<Section>(file, header.e_shoff,
                             std::min<std::size_t>(header.e_shnum, kMostSections));
}

// The function that an address lies in, as far as the table has been read.
struct Candidate {
  Address start = 0;
  int rank = -1;  // of those that start there: global before weak before local
  std::size_t name = 0;
};

int rank_of(const Symbol& symbol) {
  const unsigned binding = ELF64_ST_BIND(symbol.st_info);
  return binding == STB_GLOBAL ? 2 : binding == STB_WEAK ? 1 : 0;
}

bool is_function(const Symbol& symbol) {
  const unsigned type = ELF64_ST_TYPE(symbol.st_info);
  return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol.st_shndx != SHN_UNDEF;
}

std::string read_name(int file, std::uint64_t offset) {
  std::array<char, kMostSymbolName> text{};
  const ssize_t got = ::pread(file, text.data(), text.size() - 1, static_cast<off_t>(offset));
  return got > 0 ? std::string(text.data()) : std::string();
}

}  // namespace

std::optional<ElfImage> ElfImage::at(const Memory& memory, Address start) {
  const auto header = memory.get<Header>(start);
  if (!header || !is_header(*header)) return std::nullopt;
  std::vector<Program> programs(std::min<std::size_t>(header->e_phnum, kMostPrograms));
  if (!memory.read(start + header->e_phoff, programs.data(), programs.size() * sizeof(Program)))
    return std::nullopt;
  ElfImage image(memory);
  image.start_ = start;
  for (const auto& program : programs)
    if (program.p_type == PT_LOAD && program.p_offset < kPage)
      image.bias_ = start - (program.p_vaddr - program.p_offset);
  Address dynamic = 0;
  std::size_t entries = 0;
  for (const auto& program : programs) {
    if (program.p_type == PT_LOAD && (program.p_flags & PF_W) != 0)
      image.data_.emplace_back(image.bias_ + program.p_vaddr, program.p_memsz);
    if (program.p_type != PT_DYNAMIC) continue;
    dynamic = image.bias_ + program.p_vaddr;
    entries = std::min<std::size_t>(program.p_memsz / sizeof(Dynamic), kMostDynamic);
  }
  for (std::size_t index = 0; index < entries; ++index) {
    const auto entry = memory.get<Dynamic>(dynamic + index * sizeof(Dynamic));
    if (!entry || entry->d_tag == DT_NULL) break;
    const Address pointer = image.dynamic_pointer(entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB) image.symbols_ = pointer;
    if (entry->d_tag == DT_STRTAB) image.names_ = pointer;
    if (entry->d_tag == DT_GNU_HASH) image.gnu_hash_ = pointer;
    if (entry->d_tag == DT_HASH) image.old_hash_ = pointer;
  }
  return image;
}

// glibc's loader adds the bias in memory; musl's does not.
Address ElfImage::dynamic_pointer(Address value) const {
  return value < start_ ? value + bias_ : value;
}

std::optional<Address> ElfImage::symbol(const std::string& name) const {
  if (symbols_ == 0 || names_ == 0) return std::nullopt;
  if (gnu_hash_ != 0) return find_by_gnu_hash(name);
  if (old_hash_ != 0) return find_by_old_hash(name);
  return std::nullopt;
}

std::optional<Address> ElfImage::value_of(std::uint32_t index, const std::string& name) const {
  const auto symbol = memory_->get<Symbol>(symbols_ + index * sizeof(Symbol));
  if (!symbol || symbol->st_shndx == SHN_UNDEF) return std::nullopt;
  if (memory_->text(names_ + symbol->st_name, kMostName) != name) return std::nullopt;
  return bias_ + symbol->st_value;
}

std::optional<Address> ElfImage::find_by_gnu_hash(const std::string& name) const {
  std::uint32_t hash = 5381;
  for (const char letter : name) hash = hash * 33 + static_cast<unsigned char>(letter);
  std::array<std::uint32_t, 4> header{};  // buckets, first symbol, words of the filter, shift
  if (!memory_->read(gnu_hash_, header.data(), sizeof header) || header[0] == 0)
    return std::nullopt;
  const Address buckets = gnu_hash_ + sizeof header + Address{header[2]} * (kWordBits / 8);
  const Address chains = buckets + Address{header[0]} * 4;
  auto index = memory_->get<std::uint32_t>(buckets + Address{hash % header[0]} * 4).value_or(0);
  if (index < header[1]) return std::nullopt;
  for (std::uint32_t steps = 0; steps < kMostInChain; ++steps, ++index) {
    const auto entry = memory_->get<std::uint32_t>(chains + Address{index - header[1]} * 4);
    if (!entry) return std::nullopt;
    if ((*entry | 1U) == (hash | 1U))
      if (const auto value = value_of(index, name)) return value;
    if ((*entry & 1U) != 0) return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Address> ElfImage::find_by_old_hash(const std::string& name) const {
  std::uint32_t hash = 0;
  for (const char letter : name) {
    hash = (hash << 4U) + static_cast<unsigned char>(letter);
    const std::uint32_t high = hash & 0xf0000000U;
    hash = (hash ^ (high >> 24U)) & ~high;
  }
  const auto buckets = memory_->get<std::uint32_t>(old_hash_).value_or(0);
  if (buckets == 0) return std::nullopt;
  auto index = memory_->get<std::uint32_t>(old_hash_ + 8 + Address{hash % buckets} * 4);
  for (std::uint32_t steps = 0; index && *index != 0 && steps < kMostInChain; ++steps) {
    if (const auto value = value_of(*index, name)) return value;
    index = memory_->get<std::uint32_t>(old_hash_ + 8 + (Address{buckets} + *index) * 4);
  }
  return std::nullopt;
}

std::optional<Address> find_in_file(const std::string& path, const std::string& section,
                                    const std::string& symbol) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  Header header{};
  if (!file || ::pread(file.get(), &header, sizeof header, 0) != sizeof header) return std::nullopt;
  const auto sections = sections_of(file.get());
  if (header.e_shstrndx >= sections.size()) return std::nullopt;
  const auto& texts = sections[header.e_shstrndx];
  const auto names = read_table<char>(file.get(), texts.sh_offset, texts.sh_size);
  for (const auto& each : sections)
    if (each.sh_addr != 0 && name_at(names, each.sh_name) == section) return each.sh_addr;
  for (const auto& each : sections) {
    if (each.sh_type != SHT_SYMTAB || each.sh_link >= sections.size()) continue;
    const auto& strings = sections[each.sh_link];
    const auto symbol_names = read_table<char>(file.get(), strings.sh_offset, strings.sh_size);
    for (const auto& entry :
         read_table<Symbol>(file.get(), each.sh_offset, each.sh_size / sizeof(Symbol)))
      if (entry.st_value != 0 && name_at(symbol_names, entry.st_name) == symbol)
        return entry.st_value;
  }
  return std::nullopt;
}

std::optional<std::map<Address, std::string>> functions_in_file(int file,
                                                                const std::set<Address>& addresses,
                                                                std::size_t least) {
  const auto sections = sections_of(file);
  const auto table = std::find_if(sections.begin(), sections.end(),
                                  [](const Section& each) { return each.sh_type == SHT_SYMTAB; });
  if (table == sections.end() || table->sh_link >= sections.size()) return std::nullopt;
  const std::size_t count = table->sh_size / sizeof(Symbol);
  if (count < least) return std::nullopt;
  const std::vector<Address> wanted(addresses.begin(), addresses.end());
  std::vector<Candidate> best(wanted.size());
  for (std::size_t first = 0; first < count; first += kSymbolsAtOnce) {
    const auto symbols = read_table<Symbol>(file, table->sh_offset + first * sizeof(Symbol),
                                            std::min(kSymbolsAtOnce, count - first));
    if (symbols.empty()) return std::nullopt;
    for (const auto& symbol : symbols) {
      if (!is_function(symbol)) continue;
      const Address end = symbol.st_value + symbol.st_size;
      auto at = std::lower_bound(wanted.begin(), wanted.end(), symbol.st_value);
      for (; at != wanted.end() && *at < end; ++at) {
        auto& candidate = best[static_cast<std::size_t>(at - wanted.begin())];
        if (symbol.st_value < candidate.start) continue;
        if (symbol.st_value == candidate.start && rank_of(symbol) <= candidate.rank) continue;
        candidate = {symbol.st_value, rank_of(symbol), symbol.st_name};
      }
    }
  }
  std::map<Address, std::string> names;
  const auto texts = sections[table->sh_link].sh_offset;
  for (std::size_t index = 0; index < wanted.size(); ++index)
    if (best[index].rank >= 0) names[wanted[index]] = read_name(file, texts + best[index].name);
  return names;
}

}  // namespace hvdrun
