// A file that is there whole or not at all: written beside it, under a name that nobody can know
// and so have put a link under, and renamed.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <filesystem>
#include <string>
#include <string_view>

namespace hvdrun {

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
  tl::unexpected<Error> cannot_write(int error) const;

  std::filesystem::path file_;
  std::string cannot_;
  int exit_code_;
  std::string part_;  // "": committed or moved from
  Fd fd_;
};

}  // namespace hvdrun
