// A folder of files with one sub-folder a class, by the rules of torchvision's ImageFolder
// (torchvision.datasets.folder.make_dataset).
#pragma once

#include "io/source.hpp"

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
  // `extensions`: comma separated, whatever their case; "": all files.
  static Result<std::unique_ptr<FolderSource>> open(const std::string& path,
                                                    std::string_view extensions);

  std::int64_t samples() const override { return static_cast<std::int64_t>(ends_.size()); }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::int64_t label(std::int64_t sample) const override;
  std::string name(std::int64_t sample) const override;
  Outcome read(std::int64_t sample, ByteBuffer& out) const override;
  std::uint32_t fingerprint() const override;

 private:
  FolderSource() = default;
  void add(std::string_view file);

  std::string path_;
  std::vector<std::string> classes_;
  std::vector<std::size_t> class_ends_;  // samples up to and with each class
  // All files' paths below path_ in one string: a million small strings take twice the memory.
  std::string files_;
  std::vector<std::size_t> ends_;
};

}  // namespace libhvd
