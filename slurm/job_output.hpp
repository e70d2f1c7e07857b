// Which file a batch job's output goes to. Pure functions.
#pragma once

#include "common/fd.hpp"
#include "slurm/job_record.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <sys/stat.h>

namespace hvdrun {

struct OutputPaths {
  std::string out;  // absolute; empty: the job has no script, and so no file of its own
  std::string err;  // empty: the same as `out`
};

// With sbatch's patterns (sbatch(1), FILENAME PATTERN) put in as slurmd does. %N, the name of the
// host that the script runs on, is known only once the job has it.
OutputPaths output_paths(const JobRecord& job);

// A file that somebody else writes, perhaps on another host, read as it grows.
//
// Each look opens the file anew: on NFS that asks the server, while an open descriptor may go on
// showing what this host has cached (nfs(5), close-to-open), and it shows that another file has
// taken the name. No inotify, which does not see other hosts' writes. Belongs to one thread; reads
// regular files only, so no look waits longer than the file system does.

// Enough of a file's state to see that it has been written since, and whether what it had is still
// there.
struct FileMark {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t size = 0;
  std::int64_t changed_ns = 0;  // st_mtim
  std::string ending;           // its last bytes
};

// None: there is no such file.
std::optional<FileMark> mark_of(const std::string& path);

class OutputTail {
 public:
  enum class News {
    none,
    appeared,
    shortened,  // it begins anew: somebody truncated it
    replaced,   // another file has its name: that is read from its start
    removed,    // what is still written into it is read; a new file of its name, too
    no_access,  // it is there, but cannot be read: see trouble()
  };
  struct Look {
    News news = News::none;
    std::string bytes;
    bool at_end = true;  // there is no more for now
  };

  // `before`: as the file was before the job began. As long as it is so, it counts as not there:
  // it is what an earlier job has left. Of a file that has only grown since (sbatch's
  // --open-mode=append) that part is passed over.
  explicit OutputTail(std::string path, std::optional<FileMark> before = std::nullopt)
      : path_(std::move(path)), before_(before) {}

  // What is new, at most `most` bytes.
  Look look(std::size_t most);

  const std::string& path() const { return path_; }
  bool has_appeared() const { return has_appeared_; }
  const std::string& trouble() const { return trouble_; }  // "Permission denied"

 private:
  // The file that has the name now; null: none, or none that can be read.
  Fd open_named(News& news);
  bool is_held(const struct stat& named) const;
  void hold(Fd file, const struct stat& state);
  bool is_unchanged(const struct stat& state) const;
  bool has_grown(const struct stat& named) const;
  void read_held(Look& look, std::size_t most);

  std::string path_;
  std::optional<FileMark> before_;
  Fd held_;
  std::uint64_t device_ = 0;  // of held_
  std::uint64_t inode_ = 0;
  std::int64_t position_ = 0;
  bool has_appeared_ = false;
  bool is_gone_ = false;      // at the last look
  bool was_removed_ = false;  // and that has been told
  std::string trouble_;
};

}  // namespace hvdrun
