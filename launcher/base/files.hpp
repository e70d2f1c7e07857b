// Whole files of text that a user names.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace hvdrun {

// The file's bytes; none when it is not there. Errors (kExitUsage) begin with `cannot` ("cannot
// read the config file F"): the system's words, or that the file has more than `largest` bytes,
// whole MiB: a bound against reading a data file, or /dev/zero.
Result<std::optional<std::string>> read_file_if_there(const std::filesystem::path& file,
                                                      std::size_t largest,
                                                      const std::string& cannot);

// The same; it is an error when the file is not there.
Result<std::string> read_file(const std::filesystem::path& file, std::size_t largest,
                              const std::string& cannot);

// A file that is there whole or not at all: written beside it, under a name that nobody can know
// and so have put a link under, and renamed.

class NewFile {
 public:
  // Errors (`exit_code`) begin with `cannot` ("cannot write F"). It is one when the path is a
  // folder.
  static Result<NewFile> create(const std::filesystem::path& file, const std::string& cannot,
                                int exit_code = kExitLauncher);
  // What was not committed leaves nothing behind.
  ~NewFile();
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;

  // All of the file. The last call.
  Result<void> commit(std::string_view text);

 private:
  NewFile(std::filesystem::path file, std::string cannot, int exit_code);
  Error cannot_write(int error) const;

  std::filesystem::path file_;
  std::string cannot_;
  int exit_code_;
  std::string part_;  // "": committed or moved from
  Fd fd_;
};

// Where this hvdrun's own files are.

// The executable. Ask early: when the file is replaced or removed, the kernel says "… (deleted)".
std::filesystem::path own_executable();

// The folder share beside that of its executable, wherever that was put: /usr/share for
// /usr/bin/hvdrun, build/share for build/bin/hvdrun. Nothing says that it is there.
std::filesystem::path own_share_folder();

}  // namespace hvdrun
