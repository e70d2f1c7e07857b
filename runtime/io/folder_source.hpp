// Samples from a folder of files that has one sub-folder for each class, by the rules of
// torchvision's ImageFolder (torchvision.datasets.folder.make_dataset). See Source for threads.
#pragma once

#include "base/error.hpp"
#include "io/source.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace libhvd {

// ImageFolder's own list.
inline constexpr std::string_view kImageExtensions =
    ".jpg,.jpeg,.png,.ppm,.bmp,.pgm,.tif,.tiff,.webp";

class FolderSource final : public Source {
 public:
  // Lists the folder. `extensions`: separated by commas, in any case; "" for all files. Error: a
  // folder cannot be read or contains itself; there are no classes; a class has no files.
  static Result<std::unique_ptr<FolderSource>> open(const std::string& path,
                                                    std::string_view extensions);

  std::int64_t samples() const override { return static_cast<std::int64_t>(ends_.size()); }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::int64_t label(std::int64_t sample) const override;
  std::string name(std::int64_t sample) const override;
  Result<void> read(std::int64_t sample, ByteBuffer& out) const override;
  std::uint32_t fingerprint() const override;

 private:
  FolderSource() = default;
  void add(std::string_view file);

  std::string path_;
  std::vector<std::string> classes_;
  std::vector<std::size_t> class_ends_;  // number of samples up to and including each class
  // The paths of all files below path_ in one string, because a million small strings take twice
  // the memory. ends_ has the end of each.
  std::string files_;
  std::vector<std::size_t> ends_;
};

}  // namespace libhvd
