// A file that is there whole or not at all: written under a temporary name in the same folder,
// brought to the disk (fsync), renamed, and the folder brought to the disk. Until then, and when
// the writer is killed at any moment, the name shows what it showed before. Needs no lock, and
// nothing of a file system but an atomic rename: right on NFS too.
//
// Large pieces do not linger in the page cache, where they would push out others' data and wait for
// one long fsync: writing them to the disk begins while the next are being produced.
//
// One thread at a time. Errors (HVD_ERROR_SYSTEM) name the path and the system call's reason.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace libhvd {

// Temporary names are ".hvd-KIND.HOST.PID.NONCE": nobody else's, on any host that shares the
// folder.
struct AtomicFileOptions {
  std::string_view kind = "file";  // letters, to tell apart what was left behind
  // Write pieces that are aligned to kDirectAlignment (address, length, place in the file) past the
  // page cache (O_DIRECT), where the file system can; the others as usual.
  bool direct = false;
};

class AtomicFile {
 public:
  static constexpr std::size_t kDirectAlignment = 4096;

  // Error: the folder is missing, read-only, …. The path itself may exist or not.
  static Result<AtomicFile> create(const std::string& path, const AtomicFileOptions& options = {});

  // Drops what was not committed.
  ~AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Appends. Error: the disk is full, …; the file is then good for nothing but to be dropped.
  Result<void> write(const void* data, std::size_t bytes);

  // Makes it visible under its path, durably. The last call. Error: nothing has changed under the
  // path; only when the folder itself could not be brought to the disk ("cannot flush the folder")
  // the new file is there, and may or may not be after a crash of the machine.
  Result<void> commit();

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }  // bytes written

 private:
  AtomicFile(std::string path, std::string temporary, Fd fd, bool direct);
  Result<void> write_once(const std::byte*& data, std::size_t& bytes);
  bool set_direct(bool on);
  void start_write_back();
  void discard();

  std::string path_;
  std::string temporary_;  // "": committed or moved from
  Fd fd_;
  bool direct_ = false;  // O_DIRECT is set
  std::uint64_t size_ = 0;
  std::uint64_t write_back_from_ = 0;
};

// Removes temporary files of `kind` from a folder: all, or only those whose writer ran on this host
// and is dead. Does what it can and reports nothing: what stays does no harm.
void remove_temporary_files(const std::string& folder, std::string_view kind, bool all);

// Brings a folder's entries to the disk. Fine where a file system has nothing like it (EINVAL).
Result<void> flush_folder(const std::string& folder);

// The folder that a path's last component lies in: "." without a slash.
std::string folder_of(const std::string& path);

}  // namespace libhvd
