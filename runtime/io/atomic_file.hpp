// Writes a file that appears whole or not at all: under a temporary name in the same folder, then
// fsync, rename, and fsync of the folder. Until the rename the path shows its old content, also if
// the writer is killed at any moment. This needs no lock, and only an atomic rename from the file
// system, so it also works on NFS.
//
// The file is written to the disk while its next parts are being produced. So its data does not
// fill the page cache, where it would push out other data and wait for one long fsync.
//
// One thread at a time. Errors (HVD_ERROR_SYSTEM) name the path and the system call's reason.
#pragma once

#include "base/error.hpp"
#include "common/fd.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace libhvd {

// Temporary names are ".hvd-KIND.HOST.PID.NONCE", which no other writer uses on any host that
// shares the folder.
struct AtomicFileOptions {
  std::string_view kind = "file";  // letters; for remove_temporary_files()
  // Writes without the page cache (O_DIRECT) as long as address, length and offset are multiples of
  // kDirectAlignment and the file system supports it. From the first other write on, uses the
  // cache.
  bool direct = false;
};

class AtomicFile {
 public:
  static constexpr std::size_t kDirectAlignment = 4096;

  // Creates the temporary file. The path itself may exist or not. Error: the folder is missing, or
  // cannot be written.
  static Result<AtomicFile> create(const std::string& path, const AtomicFileOptions& options = {});

  // Deletes the temporary file if it was not committed.
  ~AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Appends. Error: the disk is full, …. After an error only destroy the object.
  Result<void> write(const void* data, std::size_t bytes);

  // Makes the file visible under its path, durably. The last call. Error: the path is unchanged.
  // The exception is "cannot flush the folder": then the new file is there, but may be lost if the
  // machine crashes.
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
  std::string temporary_;  // "" once committed or moved from
  Fd fd_;
  bool direct_ = false;  // O_DIRECT is set
  std::uint64_t size_ = 0;
  std::uint64_t write_back_from_ = 0;
};

// Removes temporary files of `kind` from a folder: all, or only those whose writer ran on this host
// and is dead. Ignores errors, because a file that remains does no harm.
void remove_temporary_files(const std::string& folder, std::string_view kind, bool all);

// Makes a folder's entries durable (fsync). Succeeds where the file system has no such operation
// (EINVAL).
Result<void> flush_folder(const std::string& folder);

// Returns the folder of a path's last component; "." if the path has no slash.
std::string folder_of(const std::string& path);

}  // namespace libhvd
