// The C ABI of hvd/data.h: sources of samples, and writing records.
#include "c_api/data.hpp"
#include "c_api/give.hpp"
#include "io/folder_source.hpp"
#include "io/record_file.hpp"
#include "io/record_source.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

using libhvd::fail;
using libhvd::give;
using libhvd::guard;
using libhvd::null_pointer;
using libhvd::report;
using libhvd::Result;

struct hvd_record_writer {
  libhvd::RecordWriter writer;
};

namespace {

// Runs open: () -> Result<std::unique_ptr<a source>>, and puts the source into `source`.
template <class Open>
hvd_status give_source(const char* what, const char* path, hvd_source** source, Open open) {
  return give(what, source, [&]() -> Result<hvd_source*> {
    if (path == nullptr) return fail(HVD_ERROR_INVALID_ARGUMENT, "no path");
    HVD_TRY(auto opened, open());
    return new hvd_source{std::move(opened)};
  });
}

// Puts the value of ask: (const Source&) -> Result<T> into `answer`.
template <class T, class Ask>
hvd_status ask_source(const char* what, const hvd_source* source, T* answer, Ask ask) noexcept {
  return give(what, answer, [&]() -> Result<T> {
    if (source == nullptr) return fail(HVD_ERROR_INVALID_ARGUMENT, "no source");
    return ask(*source->source);
  });
}

}  // namespace

hvd_status hvd_source_open_folder(const char* path, const char* extensions, hvd_source** source) {
  return give_source("hvd_source_open_folder", path, source, [=] {
    return libhvd::FolderSource::open(
        path, extensions == nullptr ? libhvd::kImageExtensions : extensions);
  });
}

hvd_status hvd_source_open_tfrecord(const char* path, hvd_source** source) {
  return give_source("hvd_source_open_tfrecord", path, source,
                     [=] { return libhvd::TfrecordSource::open(path); });
}

hvd_status hvd_source_open_fixed(const char* path, size_t record_bytes, size_t header_bytes,
                                 hvd_source** source) {
  return give_source("hvd_source_open_fixed", path, source,
                     [=] { return libhvd::FixedSource::open(path, record_bytes, header_bytes); });
}

hvd_status hvd_source_samples(const hvd_source* source, int64_t* samples) {
  return ask_source("hvd_source_samples", source, samples,
                    [](const auto& opened) -> Result<std::int64_t> { return opened.samples(); });
}

hvd_status hvd_source_classes(const hvd_source* source, int64_t* classes) {
  return ask_source("hvd_source_classes", source, classes,
                    [](const auto& opened) -> Result<std::int64_t> {
                      return static_cast<std::int64_t>(opened.classes().size());
                    });
}

hvd_status hvd_source_class_name(const hvd_source* source, int64_t label, const char** name) {
  return ask_source(
      "hvd_source_class_name", source, name, [=](const auto& opened) -> Result<const char*> {
        const auto& names = opened.classes();
        if (label < 0 || label >= static_cast<std::int64_t>(names.size()))
          return fail(HVD_ERROR_INVALID_ARGUMENT, "there is no class " + std::to_string(label) +
                                                      " among " + std::to_string(names.size()));
        return names[static_cast<std::size_t>(label)].c_str();
      });
}

hvd_status hvd_source_fingerprint(const hvd_source* source, uint32_t* fingerprint) {
  return ask_source(
      "hvd_source_fingerprint", source, fingerprint,
      [](const auto& opened) -> Result<std::uint32_t> { return opened.fingerprint(); });
}

void hvd_source_free(hvd_source* source) {
  delete source;
}

hvd_status hvd_record_writer_open(const char* path, hvd_record_writer** writer) {
  return give("hvd_record_writer_open", writer, [=]() -> Result<hvd_record_writer*> {
    if (path == nullptr) return fail(HVD_ERROR_INVALID_ARGUMENT, "no path");
    HVD_TRY(libhvd::RecordWriter opened, libhvd::RecordWriter::open(path));
    return new hvd_record_writer{std::move(opened)};
  });
}

hvd_status hvd_record_writer_write(hvd_record_writer* writer, const void* data, size_t bytes) {
  constexpr auto kWhat = "hvd_record_writer_write";
  return guard(kWhat, [=]() -> hvd_status {
    if (writer == nullptr || (data == nullptr && bytes > 0)) return report(null_pointer(kWhat));
    return report(writer->writer.write({static_cast<const std::byte*>(data), bytes}));
  });
}

hvd_status hvd_record_writer_close(hvd_record_writer* writer) {
  constexpr auto kWhat = "hvd_record_writer_close";
  const std::unique_ptr<hvd_record_writer> owned(writer);
  return guard(kWhat, [&]() -> hvd_status {
    return report(owned == nullptr ? Result<void>(null_pointer(kWhat)) : owned->writer.close());
  });
}

void hvd_record_writer_discard(hvd_record_writer* writer) {
  delete writer;
}
