// A folder that belongs to one test and is removed with its contents.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace test_tools {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string path = std::filesystem::temp_directory_path() / "hvd-test-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("mkdtemp failed: " + path);
    path_ = path;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Returns the path of a file in the folder, which need not exist.
  std::string file(const std::string& name) const { return path_.string() + "/" + name; }
  // Returns the names of what is in the folder, in any order.
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      names.push_back(entry.path().filename().string());
    return names;
  }

  // Writes a file, and makes its folder.
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    const auto file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return file;
  }
  // Writes a script, by default one of a shell that does nothing.
  std::filesystem::path write_program(const std::string& name,
                                      const std::string& text = "#!/bin/sh\n") const {
    const auto file = write(name, text);
    std::filesystem::permissions(file, std::filesystem::perms(0755));
    return file;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace test_tools

namespace hvdrun {
using test_tools::TemporaryFolder;
}
namespace libhvd::test {
using test_tools::TemporaryFolder;
}
