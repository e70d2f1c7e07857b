#include "io/folder_source.hpp"

#include "common/crc32c.hpp"
#include "io/input_file.hpp"

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include <dirent.h>
#include <sys/stat.h>

namespace libhvd {
namespace {

struct Entries {
  std::vector<std::string> folders;
  std::vector<std::string> files;
};

Error no_data(std::string message) {
  return fail(HVD_ERROR_INVALID_ARGUMENT, std::move(message));
}

// Returns the files and folders in a folder, sorted. Follows links. Leaves out what is neither,
// such as a pipe or a link to nothing.
Result<Entries> list_entries(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  if (folder == nullptr) return fail_errno("cannot open the folder " + path, errno);
  Entries entries;
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(folder.get());
    if (entry == nullptr && errno != 0) return fail_errno("cannot read the folder " + path, errno);
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    bool is_folder = entry->d_type == DT_DIR;
    bool is_file = entry->d_type == DT_REG;
    if (!is_folder && !is_file) {
      struct stat info {};
      if (::stat((path + "/" + name).c_str(), &info) != 0) continue;
      is_folder = S_ISDIR(info.st_mode);
      is_file = S_ISREG(info.st_mode);
    }
    if (is_folder) entries.folders.push_back(name);
    if (is_file) entries.files.push_back(name);
  }
  std::sort(entries.folders.begin(), entries.folders.end());
  std::sort(entries.files.begin(), entries.files.end());
  return entries;
}

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

// A list of wanted extensions; an empty list matches every name.
class Extensions {
 public:
  explicit Extensions(std::string_view list) {
    while (!list.empty()) {
      const std::size_t comma = std::min(list.find(','), list.size());
      if (comma > 0) endings_.push_back(lower(std::string(list.substr(0, comma))));
      list.remove_prefix(std::min(comma + 1, list.size()));
    }
  }
  bool match(const std::string& name) const {
    const std::string small = lower(name);
    return endings_.empty() || std::any_of(endings_.begin(), endings_.end(),
                                           [&](const auto& end) { return small.ends_with(end); });
  }

 private:
  std::vector<std::string> endings_;
};

// What a folder's path leads to: device and inode.
using Identity = std::pair<dev_t, ino_t>;

using FilesByFolder = std::map<std::string, std::vector<std::string>>;

// Gathers the files with a wanted extension in `folder` (relative to `top`) and below it. `above`:
// the folders on the way, because a link can lead back to one of them.
Result<void> walk(const std::string& top, const std::string& folder, const Extensions& extensions,
                  std::vector<Identity>& above, FilesByFolder& found) {
  const std::string path = top + "/" + folder;
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return fail_errno("cannot open the folder " + path, errno);
  const Identity own{info.st_dev, info.st_ino};
  if (std::find(above.begin(), above.end(), own) != above.end())
    return no_data("the folder " + path + " contains itself, through a link");
  HVD_TRY(Entries entries, list_entries(path));
  std::erase_if(entries.files, [&](const auto& name) { return !extensions.match(name); });
  if (!entries.files.empty()) found[folder] = std::move(entries.files);
  above.push_back(own);
  for (const auto& name : entries.folders) {
    HVD_CHECK(walk(top, folder + "/" + name, extensions, above, found));
  }
  above.pop_back();
  return {};
}

}  // namespace

Result<std::unique_ptr<FolderSource>> FolderSource::open(const std::string& path,
                                                         std::string_view extensions) {
  std::unique_ptr<FolderSource> source(new FolderSource);
  source->path_ = path;
  HVD_TRY(Entries entries, list_entries(path));
  if (entries.folders.empty())
    return no_data("the folder " + path +
                   " has no sub-folders; there must be one for each class, with its files in it");
  const Extensions wanted(extensions);
  for (auto& name : entries.folders) {
    FilesByFolder found;  // sorted by folder, as in ImageFolder
    std::vector<Identity> above;
    HVD_CHECK(walk(path, name, wanted, above, found));
    if (found.empty())
      return no_data("the class " + path + "/" + name + " has no files" +
                     (extensions.empty() ? "" : " that end in " + std::string(extensions)));
    for (const auto& [folder, files] : found) {
      for (const auto& file : files) source->add(folder + "/" + file);
    }
    source->class_ends_.push_back(source->ends_.size());
    source->classes_.push_back(std::move(name));
  }
  source->files_.shrink_to_fit();
  source->ends_.shrink_to_fit();
  return source;
}

void FolderSource::add(std::string_view file) {
  files_ += file;
  ends_.push_back(files_.size());
}

std::int64_t FolderSource::label(std::int64_t sample) const {
  const auto after =
      std::upper_bound(class_ends_.begin(), class_ends_.end(), static_cast<std::size_t>(sample));
  return after - class_ends_.begin();
}

std::string FolderSource::name(std::int64_t sample) const {
  const auto at = static_cast<std::size_t>(sample);
  const std::size_t begin = at == 0 ? 0 : ends_[at - 1];
  return path_ + "/" + files_.substr(begin, ends_[at] - begin);
}

Result<void> FolderSource::read(std::int64_t sample, ByteBuffer& out) const {
  HVD_TRY(const InputFile file, InputFile::open(name(sample)));
  return file.read(0, out.append(file.size()));
}

std::uint32_t FolderSource::fingerprint() const {
  const std::uint32_t names = crc32c(0, files_.data(), files_.size());
  const std::uint32_t ends = crc32c(names, ends_.data(), ends_.size() * sizeof(std::size_t));
  return crc32c(ends, class_ends_.data(), class_ends_.size() * sizeof(std::size_t));
}

}  // namespace libhvd
