#include "io/source.hpp"

#include "common/crc32c.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace libhvd {

Result<InputFile> InputFile::open(const std::string& path) {
  // O_NONBLOCK, because opening a named pipe waits for its writer.
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return fail_errno("cannot be opened", errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return fail_errno("cannot be looked at", errno);
  if (!S_ISREG(info.st_mode)) return fail(HVD_ERROR_SYSTEM, "is not a regular file");
  return InputFile(std::move(fd), static_cast<std::uint64_t>(info.st_size));
}

Result<void> InputFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pread(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno("cannot be read", errno);
    if (count == 0)
      return fail(HVD_ERROR_SYSTEM, "ends at byte " + std::to_string(offset) + ", " +
                                        std::to_string(bytes.size()) +
                                        " bytes early; was it changed meanwhile?");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

namespace {

struct Entries {
  std::vector<std::string> folders;
  std::vector<std::string> files;
};

Error no_data(std::string message) {
  return fail(HVD_ERROR_INVALID_ARGUMENT, std::move(message));
}

// What is in a folder, sorted, links followed. What is neither file nor folder (a pipe, a link to
// nothing) does not count.
Result<Entries> list(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  if (folder == nullptr) return fail_errno("cannot open the folder " + path, errno);
  Entries entries;
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(folder.get());
    if (entry == nullptr && errno != 0) return fail_errno("cannot read the folder " + path, errno);
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    bool is_folder = entry->d_type == DT_DIR;
    bool is_file = entry->d_type == DT_REG;
    if (!is_folder && !is_file) {
      struct stat info {};
      if (::stat((path + "/" + name).c_str(), &info) != 0) continue;
      is_folder = S_ISDIR(info.st_mode);
      is_file = S_ISREG(info.st_mode);
    }
    if (is_folder) entries.folders.push_back(name);
    if (is_file) entries.files.push_back(name);
  }
  std::sort(entries.folders.begin(), entries.folders.end());
  std::sort(entries.files.begin(), entries.files.end());
  return entries;
}

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

class Extensions {
 public:
  explicit Extensions(std::string_view list) {
    while (!list.empty()) {
      const std::size_t comma = std::min(list.find(','), list.size());
      if (comma > 0) endings_.push_back(lower(std::string(list.substr(0, comma))));
      list.remove_prefix(std::min(comma + 1, list.size()));
    }
  }
  bool match(const std::string& name) const {
    const std::string small = lower(name);
    return endings_.empty() || std::any_of(endings_.begin(), endings_.end(),
                                           [&](const auto& end) { return small.ends_with(end); });
  }

 private:
  std::vector<std::string> endings_;
};

// A folder inside itself, through a link, would be walked through for ever.
using Identity = std::pair<dev_t, ino_t>;

using FilesByFolder = std::map<std::string, std::vector<std::string>>;

// Gathers the files that count in `folder` (relative to `top`) and below it.
Result<void> walk(const std::string& top, const std::string& folder, const Extensions& extensions,
                  std::vector<Identity>& above, FilesByFolder& found) {
  const std::string path = top + "/" + folder;
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return fail_errno("cannot open the folder " + path, errno);
  const Identity own{info.st_dev, info.st_ino};
  if (std::find(above.begin(), above.end(), own) != above.end())
    return no_data("the folder " + path + " contains itself, through a link");
  HVD_TRY(Entries entries, list(path));
  std::erase_if(entries.files, [&](const auto& name) { return !extensions.match(name); });
  if (!entries.files.empty()) found[folder] = std::move(entries.files);
  above.push_back(own);
  for (const auto& name : entries.folders) {
    HVD_CHECK(walk(top, folder + "/" + name, extensions, above, found));
  }
  above.pop_back();
  return {};
}

constexpr std::size_t kWriteAtOnce = std::size_t{1} << 20;

template <class T>
void store(std::byte* where, T value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    where[i] = static_cast<std::byte>(value >> (8 * i));
  }
}

template <class T>
T load(const std::byte* where) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) value |= static_cast<T>(where[i]) << (8 * i);
  return value;
}

Error damaged(const std::string& message) {
  return fail(HVD_ERROR_INVALID_ARGUMENT, message);
}

// Reads a file forwards in pieces: large ones while records are small, else little more than the
// header, because what lies between is not wanted.
class HeaderReader {
 public:
  explicit HeaderReader(const InputFile& file) : file_(file) {}

  Result<std::span<const std::byte, kRecordHeader>> at(std::uint64_t offset) {
    if (offset < begin_ || offset + kRecordHeader > begin_ + filled_) {
      constexpr std::uint64_t kSmall = 4096;
      const std::uint64_t skipped = offset - begin_;
      const std::uint64_t wanted = skipped < 2 * filled_ ? bytes_.size() : kSmall;
      begin_ = offset;
      filled_ = 0;
      const auto count = static_cast<std::size_t>(std::min(wanted, file_.size() - offset));
      HVD_CHECK(file_.read(offset, {bytes_.data(), count}));
      filled_ = count;
    }
    return std::span<const std::byte, kRecordHeader>(
        bytes_.data() + static_cast<std::size_t>(offset - begin_), kRecordHeader);
  }

 private:
  const InputFile& file_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(64 * 1024);
  std::uint64_t begin_ = 0;
  std::uint64_t filled_ = 0;
};

// The length of the record at `offset`.
Result<std::uint64_t> length_at(HeaderReader& headers, const InputFile& file,
                                std::uint64_t offset) {
  const std::uint64_t left = file.size() - offset;
  if (left < kRecordHeader + kRecordFooter) return damaged("the file ends within it");
  HVD_TRY(const auto header, headers.at(offset));
  if (offset == 0 && header[0] == std::byte{0x1f} && header[1] == std::byte{0x8b})
    return damaged("the file is compressed (gzip); uncompress it first");
  HVD_TRY(const std::uint64_t length, parse_record_header(header));
  if (length > left - kRecordHeader - kRecordFooter)
    return damaged("the file ends within it (it has " + std::to_string(length) + " bytes of data)");
  return length;
}

}  // namespace

Result<std::unique_ptr<FolderSource>> FolderSource::open(const std::string& path,
                                                         std::string_view extensions) {
  std::unique_ptr<FolderSource> source(new FolderSource);
  source->path_ = path;
  HVD_TRY(Entries entries, list(path));
  if (entries.folders.empty())
    return no_data("the folder " + path +
                   " has no sub-folders; there must be one for each class, with its files in it");
  const Extensions wanted(extensions);
  for (auto& name : entries.folders) {
    FilesByFolder found;  // sorted by folder, as ImageFolder goes
    std::vector<Identity> above;
    HVD_CHECK(walk(path, name, wanted, above, found));
    if (found.empty())
      return no_data("the class " + path + "/" + name + " has no files" +
                     (extensions.empty() ? "" : " that end in " + std::string(extensions)));
    for (const auto& [folder, files] : found) {
      for (const auto& file : files) source->add(folder + "/" + file);
    }
    source->class_ends_.push_back(source->ends_.size());
    source->classes_.push_back(std::move(name));
  }
  source->files_.shrink_to_fit();
  source->ends_.shrink_to_fit();
  return source;
}

void FolderSource::add(std::string_view file) {
  files_ += file;
  ends_.push_back(files_.size());
}

std::int64_t FolderSource::label(std::int64_t sample) const {
  const auto after =
      std::upper_bound(class_ends_.begin(), class_ends_.end(), static_cast<std::size_t>(sample));
  return after - class_ends_.begin();
}

std::string FolderSource::name(std::int64_t sample) const {
  const auto at = static_cast<std::size_t>(sample);
  const std::size_t begin = at == 0 ? 0 : ends_[at - 1];
  return path_ + "/" + files_.substr(begin, ends_[at] - begin);
}

Result<void> FolderSource::read(std::int64_t sample, ByteBuffer& out) const {
  HVD_TRY(const InputFile file, InputFile::open(name(sample)));
  return file.read(0, out.append(file.size()));
}

std::uint32_t FolderSource::fingerprint() const {
  const std::uint32_t names = crc32c(0, files_.data(), files_.size());
  const std::uint32_t ends = crc32c(names, ends_.data(), ends_.size() * sizeof(std::size_t));
  return crc32c(ends, class_ends_.data(), class_ends_.size() * sizeof(std::size_t));
}

std::uint32_t masked_crc(std::span<const std::byte> bytes) {
  const std::uint32_t crc = crc32c(0, bytes.data(), bytes.size());
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

std::array<std::byte, kRecordHeader> record_header(std::uint64_t length) {
  std::array<std::byte, kRecordHeader> header{};
  store(header.data(), length);
  store(header.data() + 8, masked_crc(std::span(header).first<8>()));
  return header;
}

std::array<std::byte, kRecordFooter> record_footer(std::span<const std::byte> data) {
  std::array<std::byte, kRecordFooter> footer{};
  store(footer.data(), masked_crc(data));
  return footer;
}

Result<std::uint64_t> parse_record_header(std::span<const std::byte, kRecordHeader> header) {
  if (load<std::uint32_t>(header.data() + 8) != masked_crc(header.first<8>()))
    return damaged("its length is damaged (wrong checksum), or the file is no TFRecord file");
  return load<std::uint64_t>(header.data());
}

bool footer_matches(std::span<const std::byte, kRecordFooter> footer,
                    std::span<const std::byte> data) {
  return load<std::uint32_t>(footer.data()) == masked_crc(data);
}

Result<std::vector<std::uint64_t>> index_records(const InputFile& file) {
  std::vector<std::uint64_t> offsets{0};
  HeaderReader headers(file);
  while (offsets.back() < file.size()) {
    const auto length = length_at(headers, file, offsets.back());
    if (!length.ok())
      return with_context("record " + std::to_string(offsets.size() - 1) + " (at byte " +
                              std::to_string(offsets.back()) + ")",
                          length.error());
    offsets.push_back(offsets.back() + kRecordHeader + *length + kRecordFooter);
  }
  offsets.shrink_to_fit();
  return offsets;
}

Result<RecordWriter> RecordWriter::open(const std::string& path) {
  HVD_TRY(AtomicFile file, AtomicFile::create(path, {.kind = "records"}));
  return RecordWriter(std::move(file));
}

Result<void> RecordWriter::write(std::span<const std::byte> data) {
  HVD_CHECK(put(record_header(data.size())));
  HVD_CHECK(put(data));
  return put(record_footer(data));
}

Result<void> RecordWriter::put(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  return buffer_.size() < kWriteAtOnce ? Result<void>() : flush();
}

Result<void> RecordWriter::flush() {
  HVD_CHECK(file_.write(buffer_.data(), buffer_.size()));
  buffer_.clear();
  return {};
}

Result<void> RecordWriter::close() {
  HVD_CHECK(flush());
  return file_.commit();
}

std::uint32_t RecordSource::fingerprint() const {
  const std::array<std::uint64_t, 2> facts{file_.size(), static_cast<std::uint64_t>(samples())};
  return crc32c(0, facts.data(), sizeof facts);
}

Result<std::unique_ptr<TfrecordSource>> TfrecordSource::open(const std::string& path) {
  auto file = InputFile::open(path);
  if (!file.ok()) return with_context(path, file.error());
  auto offsets = index_records(*file);
  if (!offsets.ok()) return with_context(path, offsets.error());
  return std::unique_ptr<TfrecordSource>(
      new TfrecordSource(path, std::move(*file), std::move(*offsets)));
}

Result<void> TfrecordSource::read(std::int64_t sample, ByteBuffer& out) const {
  const auto at = static_cast<std::size_t>(sample);
  const std::uint64_t begin = offsets_[at] + kRecordHeader;
  const auto bytes = out.append(offsets_[at + 1] - begin);
  HVD_CHECK(file().read(begin, bytes));
  const auto data = bytes.first(bytes.size() - kRecordFooter);
  if (!footer_matches(bytes.last<kRecordFooter>(), data))
    return fail(HVD_ERROR_SYSTEM, "the data is damaged (wrong checksum)");
  out.resize(out.size() - kRecordFooter);
  return {};
}

FixedSource::FixedSource(std::string path, InputFile file, std::uint64_t record_bytes,
                         std::uint64_t header_bytes)
    : RecordSource(std::move(path), std::move(file)),
      record_bytes_(record_bytes),
      header_bytes_(header_bytes),
      samples_(static_cast<std::int64_t>((this->file().size() - header_bytes) / record_bytes)) {}

Result<std::unique_ptr<FixedSource>> FixedSource::open(const std::string& path,
                                                       std::uint64_t record_bytes,
                                                       std::uint64_t header_bytes) {
  const auto bad = [&](const std::string& message) {
    return fail(HVD_ERROR_INVALID_ARGUMENT, path + ": " + message);
  };
  if (record_bytes == 0) return bad("records of 0 bytes cannot be counted");
  auto file = InputFile::open(path);
  if (!file.ok()) return with_context(path, file.error());
  if (file->size() < header_bytes)
    return bad("the file has " + std::to_string(file->size()) + " bytes, less than a header of " +
               std::to_string(header_bytes));
  const std::uint64_t over = (file->size() - header_bytes) % record_bytes;
  if (over != 0)
    return bad("after a header of " + std::to_string(header_bytes) +
               " bytes and whole records of " + std::to_string(record_bytes) + ", " +
               std::to_string(over) + " bytes are left");
  return std::unique_ptr<FixedSource>(
      new FixedSource(path, std::move(*file), record_bytes, header_bytes));
}

Result<void> FixedSource::read(std::int64_t sample, ByteBuffer& out) const {
  return file().read(header_bytes_ + static_cast<std::uint64_t>(sample) * record_bytes_,
                     out.append(record_bytes_));
}

}  // namespace libhvd
