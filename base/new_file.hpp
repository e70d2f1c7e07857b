// Writes a file so that it exists whole or not at all: under another name in the same folder, which
// is then renamed. That name cannot be guessed, so no link can be put there before. Blocks the
// caller's thread. A pipe or a device is written directly, because no file must replace it. It is
// opened by commit(), so that its reader gets the content before the end of the stream.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"

#include <filesystem>
#include <string>
#include <string_view>

namespace hvdrun {

class NewFile {
 public:
  // Creates the file under its temporary name. Errors have `exit_code` and begin with `cannot`
  // ("cannot write F"): `file` is a folder; the
  // system refuses.
  static Result<NewFile> create(const std::filesystem::path& file, const std::string& cannot,
                                int exit_code = kExitLauncher);
  // Removes the temporary file if it was not committed.
  ~NewFile();
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;

  // Writes the whole content and renames the file. The last call. Errors as those of create(), and
  // a pipe without a reader.
  Result<void> commit(std::string_view text);

 private:
  NewFile(std::filesystem::path file, std::string cannot, int exit_code);
  Error cannot_write(int error) const;

  std::filesystem::path file_;
  std::string cannot_;
  int exit_code_;
  std::string part_;  // the temporary name; empty: a stream, committed or moved from
  Fd fd_;
};

}  // namespace hvdrun
