#include "checkpoint/folder.hpp"

#include "io/atomic_file.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <memory>

#include <dirent.h>
#include <sys/stat.h>

namespace libhvd::checkpoint {
namespace {

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kSuffix = ".hvd";
constexpr std::string_view kPartWord = "part-";

// Removes a number of at least `digits` digits from the front of the text. Returns nullopt if
// there is none.
std::optional<std::uint64_t> take_number(std::string_view& text, std::size_t digits,
                                         int base = 10) {
  std::uint64_t number = 0;
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  const auto length = static_cast<std::size_t>(stop - text.data());
  if (code != std::errc() || length < digits) return std::nullopt;
  text.remove_prefix(length);
  return number;
}

// Removes `word` from the front of the text. Returns false if the text begins otherwise.
bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

// Parses a name in any spelling, for example with more zeros than text() writes.
std::optional<FileName> parse_leniently(std::string_view text) {
  FileName name;
  if (!take(text, kPrefix)) return std::nullopt;
  const auto step = take_number(text, 20);
  if (!step || !take(text, ".")) return std::nullopt;
  const auto save = take_number(text, 10);
  if (!save) return std::nullopt;
  name.step = *step;
  name.save = *save;
  if (text == kSuffix) return name;
  if (!take(text, ".")) return std::nullopt;
  const auto writer = take_number(text, 16, 16);
  if (!writer || !take(text, ".") || !take(text, kPartWord)) return std::nullopt;
  const auto part = take_number(text, 5);
  if (!part || !text.empty()) return std::nullopt;
  name.is_part = true;
  name.writer = *writer;
  name.part = *part;
  return name;
}

// Creates the folder and makes its name durable. Returns 0, or the errno of mkdir(2). Error: the
// folder was created but its name cannot be made durable.
Result<int> make_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0777) != 0) return errno;
  HVD_CHECK(flush_folder(folder_of(folder.substr(0, folder.find_last_not_of('/') + 1))));
  return 0;
}

}  // namespace

std::string FileName::text() const {
  char text[128];
  if (is_part) {
    std::snprintf(text, sizeof text,
                  "checkpoint-%020" PRIu64 ".%010" PRIu64 ".%016" PRIx64 ".part-%05" PRIu64, step,
                  save, writer, part);
  } else {
    std::snprintf(text, sizeof text, "checkpoint-%020" PRIu64 ".%010" PRIu64 ".hvd", step, save);
  }
  return text;
}

std::optional<FileName> FileName::parse(std::string_view text) {
  const auto name = parse_leniently(text);
  // Accepts one spelling only, because the file that is opened later has the name of text().
  if (!name || name->text() != text) return std::nullopt;
  return name;
}

Result<std::vector<FileName>> list_folder(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(folder.c_str()), ::closedir);
  if (listing == nullptr) return fail_errno("cannot read the folder " + folder, errno);
  std::vector<FileName> names;
  errno = 0;
  while (const dirent* entry = ::readdir(listing.get())) {
    if (const auto name = FileName::parse(entry->d_name)) names.push_back(*name);
    errno = 0;
  }
  if (errno != 0) return fail_errno("cannot read the folder " + folder, errno);
  std::ranges::sort(names, [](const FileName& a, const FileName& b) {
    if (a.save != b.save) return a.save > b.save;
    if (a.step != b.step) return a.step > b.step;
    if (a.is_part != b.is_part) return b.is_part;
    return a.part < b.part;
  });
  return names;
}

Result<void> make_folders(const std::string& folder) {
  for (std::size_t end = folder.find('/', 1); end != std::string::npos;
       end = folder.find('/', end + 1)) {
    HVD_CHECK(make_folder(folder.substr(0, end)));  // the call below reports a failure
  }
  HVD_TRY(const int reason, make_folder(folder));
  if (reason == 0) return {};
  struct stat status {};
  if (reason == EEXIST && ::stat(folder.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return {};
    return fail(HVD_ERROR_SYSTEM, folder + " is not a folder but a file");
  }
  return fail_errno("cannot create the folder " + folder, reason);
}

Result<FolderIdentity> FolderIdentity::of(const std::string& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0)
    return fail_errno("cannot look at the folder " + folder, errno);
  if (!S_ISDIR(status.st_mode))
    return fail(HVD_ERROR_SYSTEM, folder + " is not a folder but a file");
  return FolderIdentity{status.st_dev, status.st_ino};
}

}  // namespace libhvd::checkpoint
