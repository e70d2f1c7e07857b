// Symbols of libraries in memory: those of this process.
#include "look/elf_image.hpp"

#include "common/fd.hpp"
#include "common/result.hpp"
#include "look/proc_files.hpp"

#include <cstring>

#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

namespace hvdrun {
namespace {

Address start_of(const std::string& name) {
  for (const auto& mapping : read_maps(::getpid()))
    if (mapping.offset == 0 && mapping.path.find(name) != std::string::npos) return mapping.start;
  return 0;
}

TEST(ElfImage, FindsASymbolOfALibrary) {
  const Memory memory(::getpid());
  const auto image = ElfImage::at(memory, start_of("/libc.so"));
  ASSERT_TRUE(image);
  EXPECT_EQ(image->symbol("environ"), reinterpret_cast<Address>(::dlsym(RTLD_DEFAULT, "environ")));
  EXPECT_TRUE(image->symbol("getpid"));
  EXPECT_FALSE(image->symbol("no_such_function"));
  EXPECT_FALSE(image->data().empty());
}

TEST(ElfImage, IsNothingWithoutAHeader) {
  const Memory memory(::getpid());
  std::vector<char> page(4096, 'x');
  EXPECT_FALSE(ElfImage::at(memory, reinterpret_cast<Address>(page.data())));
  EXPECT_FALSE(ElfImage::at(memory, 8));
}

TEST(ElfImage, StaysWithinADamagedOne) {
  const Memory memory(::getpid());
  std::vector<char> page(4096);
  ASSERT_TRUE(memory.read(start_of("/libc.so"), page.data(), page.size()));
  for (std::size_t at = 16; at < page.size(); ++at) {
    auto damaged = page;
    damaged[at] = static_cast<char>(0xff);
    const auto image = ElfImage::at(memory, reinterpret_cast<Address>(damaged.data()));
    if (image) (void)image->symbol("environ");
  }
}

TEST(FindInFile, FindsASymbolThatIsNotDynamic) {
  EXPECT_TRUE(find_in_file("/proc/self/exe", ".no_section", "main"));
  EXPECT_TRUE(find_in_file("/proc/self/exe", ".data", "no_symbol"));
  EXPECT_FALSE(find_in_file("/proc/self/exe", ".no_section", "no_symbol"));
  EXPECT_FALSE(find_in_file("/proc/self/status", ".data", "main"));
  EXPECT_FALSE(find_in_file("/no/such/file", ".data", "main"));
}

extern "C" [[gnu::noinline, gnu::used]] void function_of_this_test() {
  asm volatile("nop; nop; nop; nop");  // NOLINT: so that it has a second byte
}

TEST(FunctionsInFile, NamesTheFunctionsThatAddressesLieIn) {
  const Fd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const auto start = find_in_file("/proc/self/exe", ".no_section", "function_of_this_test");
  ASSERT_TRUE(start);
  const auto names = functions_in_file(file.get(), {*start, *start + 1, 1}, 0);
  ASSERT_TRUE(names);
  EXPECT_EQ(names->size(), 2U) << "1 lies in no function";
  EXPECT_EQ(names->at(*start), "function_of_this_test");
  EXPECT_EQ(names->at(*start + 1), "function_of_this_test");
  EXPECT_FALSE(functions_in_file(file.get(), {*start}, 1U << 30U)) << "it has fewer symbols";
}

TEST(FunctionsInFile, AreNoneOfAFileThatIsNoProgram) {
  const Fd file(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(functions_in_file(file.get(), {1}, 0));
}

}  // namespace
}  // namespace hvdrun
