#include "common/bundled_library.hpp"

#include <array>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

#include <glob.h>
#include <link.h>

namespace common {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPmix = "libpmix.so.2";

#ifdef HVD_BUNDLED_PMIX

constexpr const char* kBundledPmix = HVD_BUNDLED_PMIX;

// Where pip puts hvd/lib, seen from the folder of hvdrun and from that of libhvd.
constexpr std::array<std::string_view, 3> kFolders = {"", "../lib*/python3*/*-packages/hvd/lib",
                                                      "../hvd/lib"};

// Returns the folder of the program or library that this code is in; empty if it is not known.
fs::path own_folder() {
  Dl_info info{};
  void* extra = nullptr;
  static const char here = 0;
  if (::dladdr1(&here, &info, &extra, RTLD_DL_LINKMAP) == 0) return {};
  const std::string_view name = static_cast<const link_map*>(extra)->l_name;
  if (!name.empty()) return fs::path(name).parent_path();
  std::error_code error;  // the program itself has no name there
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

// Returns `text` with its wildcards as plain characters.
std::string without_wildcards(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\*?[").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

// Opens the first file of that name that is in one of the wheel's folders.
Result<SharedLibrary, std::string> open_bundled(std::string_view file) {
  const fs::path own = own_folder();
  std::string why = "the wheel has none";
  if (own.empty()) return why;
  for (const std::string_view folder : kFolders) {
    const std::string pattern =
        (fs::path(without_wildcards(own.native())) / folder / file).native();
    glob_t found{};
    if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
      for (std::size_t i = 0; i < found.gl_pathc; ++i) {
        auto opened = SharedLibrary::open(found.gl_pathv[i]);
        if (opened) {
          ::globfree(&found);
          return opened;
        }
        why = opened.error();
      }
    }
    ::globfree(&found);
  }
  return why;
}

// The wheel's OpenSSL has names of its own: a program may load another one as well.
std::string bundled_name(const std::string& soname) {
  return soname == "libssl.so.3" ? "libssl-hvd.so.3" : soname;
}

#else

constexpr const char* kBundledPmix = "0";

Result<SharedLibrary, std::string> open_bundled(std::string_view /*file*/) {
  return std::string("this build brings none");
}
std::string bundled_name(const std::string& soname) {
  return soname;
}

#endif

std::array<int, 3> numbers_of(std::string_view text) {
  std::array<int, 3> numbers{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int& number : numbers) {
    const auto [stop, error] = std::from_chars(at, end, number);
    if (error != std::errc{} || stop == end || *stop != '.') break;
    at = stop + 1;
  }
  return numbers;
}

}  // namespace

bool pmix_is_at_least(std::string_view text, std::string_view version) {
  const std::size_t at = text.find_first_of("0123456789");
  if (at == std::string_view::npos) return false;
  return numbers_of(text.substr(at)) >= numbers_of(version);
}

Result<SharedLibrary, std::string> open_own_or_bundled(const std::string& soname) {
  auto own = SharedLibrary::open(soname);
  if (own) return own;
  auto bundled = open_bundled(bundled_name(soname));
  return bundled ? std::move(bundled) : std::move(own);
}

Result<SharedLibrary, std::string> open_pmix() {
  if (auto loaded = SharedLibrary::open(kPmix, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return loaded;
  auto own = SharedLibrary::open(kPmix);
  if (own) {
    const char* (*version)() = nullptr;
    if (own->find("PMIx_Get_version", version) && pmix_is_at_least(version(), kBundledPmix))
      return own;
  }
  auto bundled = open_bundled(kPmix);
  if (!bundled) return own;
  if (own) own->close();
  return bundled;
}

}  // namespace common
