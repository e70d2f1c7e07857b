#include "checkpoint/archive.hpp"

#include "checkpoint/checkpoint_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>
#include <utility>

#include <unistd.h>

namespace libhvd::checkpoint {
namespace {

void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    std::fprintf(stderr, "hvd: cannot delete the old checkpoint %s: %s\n", path.c_str(),
                 std::strerror(errno));
}

}  // namespace

std::vector<SavedCheckpoint> read_indexes(const std::string& folder,
                                          const std::vector<FileName>& names) {
  std::vector<SavedCheckpoint> readable;
  for (const FileName& name : names) {
    if (name.is_part) continue;
    const auto file = DataFile::open(folder + "/" + name.text());
    if (file.ok()) readable.push_back({name.step, name.save, file->index().metric});
  }
  return readable;
}

Result<void> Archive::read() {
  HVD_TRY(const std::vector<FileName> names, list_folder(folder_));
  for (const FileName& name : names) last_save_ = std::max(last_save_, name.save);
  checkpoints_ = read_indexes(folder_, names);
  return {};
}

void Archive::remove_stray_parts() {
  const auto names = list_folder(folder_);
  if (!names.ok()) return;
  std::set<std::pair<std::uint64_t, std::uint64_t>> whole;
  for (const FileName& name : *names) {
    if (!name.is_part) whole.emplace(name.step, name.save);
  }
  for (const FileName& name : *names) {
    if (name.is_part && !whole.contains({name.step, name.save}))
      remove_file(folder_ + "/" + name.text());
  }
}

std::vector<SavedCheckpoint> Archive::add(const SavedCheckpoint& added) {
  checkpoints_.push_back(added);
  std::vector<SavedCheckpoint> rest =
      superfluous(checkpoints_, retention_.keep_last, retention_.best);
  for (const SavedCheckpoint& checkpoint : rest) std::erase(checkpoints_, checkpoint);
  return rest;
}

void Archive::forget(const FileName& name) {
  std::erase_if(checkpoints_, [&](const SavedCheckpoint& checkpoint) {
    return checkpoint.step == name.step && checkpoint.save == name.save;
  });
}

void delete_checkpoints(const std::string& folder,
                        const std::vector<SavedCheckpoint>& superfluous) {
  for (const SavedCheckpoint& checkpoint : superfluous) {
    // The manifest first: parts without it are no checkpoint, and the next open() deletes them.
    remove_file(folder + "/" + FileName{checkpoint.step, checkpoint.save}.text());
    const auto names = list_folder(folder);
    if (!names.ok()) return;
    for (const FileName& name : *names) {
      if (name.is_part && name.step == checkpoint.step && name.save == checkpoint.save)
        remove_file(folder + "/" + name.text());
    }
  }
}

}  // namespace libhvd::checkpoint
