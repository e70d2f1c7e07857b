// Reads a file as it grows while another process writes it, perhaps on another host. Belongs to one
// thread. Reads regular files only, so look() waits no longer than the file system does. Errors of
// the file system are values: News::no_access and access_error().
//
// Each look opens the file again. On NFS the client then asks the server; an open descriptor may
// continue to show what this host has cached (nfs(5), close-to-open). Opening it again also shows
// that another file has taken the name. inotify(7) is no help, because it does not report writes of
// other hosts.
#pragma once

#include "common/fd.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <sys/stat.h>

namespace hvdrun {

// The state of a file at one moment. A later look shows by it whether the file was written since,
// and whether its former content is still there.
struct FileMark {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t size = 0;        // in bytes
  std::int64_t changed_ns = 0;  // st_mtim
  std::string ending;           // its last bytes
};

// Returns nullopt if there is no such file.
std::optional<FileMark> mark_of(const std::string& path);

class OutputTail {
 public:
  enum class News {
    none,
    appeared,
    shortened,  // it was truncated, and is read from its start
    replaced,   // another file has its name, and is read from its start
    removed,    // reading continues, and a new file of its name is read, too
    no_access,  // it exists but cannot be read: see access_error()
  };
  struct Look {
    News news = News::none;
    std::string bytes;
    bool at_end = true;  // there is nothing more to read for now
  };

  // `before` is the file's state before the job began. While the file is in that state it is
  // treated as missing, because it is left from an earlier job. If it has only grown since, as with
  // sbatch's --open-mode=append, reading starts after the old part.
  explicit OutputTail(std::string path, std::optional<FileMark> before = std::nullopt)
      : path_(std::move(path)), before_(std::move(before)) {}

  // Returns what is new, with at most `most` bytes of content.
  Look look(std::size_t most);

  const std::string& path() const { return path_; }
  bool has_appeared() const { return has_appeared_; }
  // Returns why the file could not be read at the last look, such as "Permission denied". Empty if
  // it was read or is missing.
  const std::string& access_error() const { return access_error_; }

 private:
  // Opens the file that has the name now. The result is empty if there is none or it cannot be
  // read.
  common::Fd open_named(News& news);
  bool is_held(const struct stat& named) const;
  void hold(common::Fd file, const struct stat& state);
  bool is_unchanged(const struct stat& state) const;
  bool has_grown(const struct stat& named) const;
  void read_held(Look& look, std::size_t most);

  std::string path_;
  std::optional<FileMark> before_;
  common::Fd held_;           // the file that is read, also after it lost its name
  std::uint64_t device_ = 0;  // of held_
  std::uint64_t inode_ = 0;
  std::int64_t position_ = 0;  // in held_, in bytes
  bool has_appeared_ = false;
  bool is_gone_ = false;           // at the last look
  bool removal_reported_ = false;  // News::removed was returned for held_
  std::string access_error_;
};

}  // namespace hvdrun
