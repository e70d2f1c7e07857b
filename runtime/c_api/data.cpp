// The C ABI of hvd/data.h: sources, and writing records.
#include "c_api/data.hpp"

#include "io/folder_source.hpp"
#include "io/reader.hpp"
#include "io/record_file.hpp"
#include "io/record_source.hpp"

#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <vector>

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

// open: () -> Result<std::unique_ptr<a source>>.
template <class Open>
hvd_status give_source(const char* what, const char* path, hvd_source** source, Open open) {
  return give(what, source, [&]() -> Result<hvd_source*> {
    if (path == nullptr) return fail(HVD_ERROR_INVALID_ARGUMENT, "no path");
    HVD_TRY(auto opened, open());
    return new hvd_source{std::move(opened)};
  });
}

// ask: (const Source&) -> Result<T>.
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
    return report(owned == nullptr ? libhvd::Result<void>(null_pointer(kWhat))
                                   : owned->writer.close());
  });
}

void hvd_record_writer_discard(hvd_record_writer* writer) {
  delete writer;
}

using libhvd::guard;
using libhvd::null_pointer;
using libhvd::report;
using libhvd::Result;
using libhvd::with_context;

struct hvd_shard {
  libhvd::Shard shard;
  std::vector<std::int64_t> indices;
};

namespace libhvd {

// The C ABI of hvd/data.h: shards.

Result<ShardOptions> read_shard_options(const hvd_shard_options* given) {
  HVD_TRY(const hvd_shard_options c, read_struct(given, "hvd_shard_options"));
  ShardOptions options;
  options.samples = c.samples;
  options.batch = c.batch;
  options.epoch = c.epoch;
  options.seed = c.seed;
  options.shuffle = c.shuffle != 0;
  options.remainder = c.remainder;
  options.rank = c.rank;
  options.size = c.size;
  if (c.size != 0) return options;
  options.rank = hvd_rank();
  options.size = hvd_size();
  if (options.rank < 0 || options.size < 0)
    return fail(HVD_ERROR_NOT_INITIALIZED,
                "rank and size were left to the job, but this is before hvd_init or after "
                "hvd_shutdown");
  return options;
}

}  // namespace libhvd

hvd_status hvd_shard_create(const hvd_shard_options* options, hvd_shard** shard) {
  return libhvd::give("hvd_shard_create", shard, [=]() -> Result<hvd_shard*> {
    if (options == nullptr) return libhvd::fail(HVD_ERROR_INVALID_ARGUMENT, "no options");
    HVD_TRY(const libhvd::ShardOptions read, libhvd::read_shard_options(options));
    HVD_TRY(libhvd::Shard made, libhvd::Shard::make(read));
    return new hvd_shard{std::move(made), {}};
  });
}

hvd_status hvd_shard_steps(const hvd_shard* shard, int64_t* steps) {
  return libhvd::give("hvd_shard_steps", steps, [=]() -> Result<std::int64_t> {
    if (shard == nullptr) return libhvd::fail(HVD_ERROR_INVALID_ARGUMENT, "no shard");
    return shard->shard.steps();
  });
}

hvd_status hvd_shard_step(hvd_shard* shard, int64_t step, const int64_t** indices, size_t* count) {
  constexpr auto kWhat = "hvd_shard_step";
  return guard(kWhat, [=]() -> hvd_status {
    if (shard == nullptr || indices == nullptr || count == nullptr)
      return report(null_pointer(kWhat));
    const libhvd::Result<void> outcome = shard->shard.indices(step, shard->indices);
    if (!outcome.ok()) return report(with_context(kWhat, outcome.error()));
    *count = shard->indices.size();
    *indices = shard->indices.empty() ? nullptr : shard->indices.data();
    return HVD_OK;
  });
}

hvd_status hvd_shard_batch_size(const hvd_shard* shard, int64_t step, int64_t* samples) {
  return libhvd::give("hvd_shard_batch_size", samples, [=]() -> Result<std::int64_t> {
    if (shard == nullptr) return libhvd::fail(HVD_ERROR_INVALID_ARGUMENT, "no shard");
    return shard->shard.batch_size(step);
  });
}

void hvd_shard_free(hvd_shard* shard) {
  delete shard;
}

// The C ABI of hvd/data.h: the reader.

using libhvd::fail;
using libhvd::give;
using libhvd::guard;
using libhvd::Result;

struct hvd_reader {
  libhvd::Reader reader;
  hvd_batch batch{};
};

struct hvd_output {
  libhvd::SampleOutput& place;
  std::string message;
};

namespace {

libhvd::Error no_reader() {
  return fail(HVD_ERROR_INVALID_ARGUMENT, "no reader");
}

// Calls the program's function and makes an Error of its failure.
libhvd::Decode wrap(hvd_decode decode, void* context) {
  if (decode == nullptr) return nullptr;
  return [=](const libhvd::Sample& sample, libhvd::SampleOutput& place) -> Result<void> {
    const hvd_sample c{sample.index, sample.label, sample.data.data(), sample.data.size(),
                       sample.name.c_str()};
    hvd_output output{place, {}};
    const hvd_status status = decode(context, &c, &output);
    if (status == HVD_OK) return libhvd::Result<void>();
    if (output.message.empty()) output.message = "decode failed with " + std::to_string(status);
    return fail(HVD_ERROR_SYSTEM, std::move(output.message));
  };
}

Result<libhvd::ReaderOptions> read_reader_options(const hvd_reader_options* given) {
  libhvd::ReaderOptions options;
  if (given == nullptr) return options;
  HVD_TRY(const hvd_reader_options c, libhvd::read_struct(given, "hvd_reader_options"));
  if (c.threads != 0) options.threads = c.threads;
  if (c.prefetch != 0) options.prefetch = c.prefetch;
  options.cache = c.cache != 0;
  options.decode = wrap(c.decode, c.context);
  return options;
}

hvd_batch view(const libhvd::Batch& batch) {
  hvd_batch c{};
  c.epoch = batch.epoch;
  c.step = batch.step;
  c.batch_size = batch.batch_size;
  c.count = batch.indices.size();
  c.indices = batch.indices.data();
  c.labels = batch.labels.data();
  c.data = reinterpret_cast<const unsigned char*>(batch.data.data());
  c.offsets = batch.offsets.data();
  return c;
}

}  // namespace

hvd_status hvd_reader_open(const hvd_source* source, const hvd_shard_options* shard,
                           const hvd_reader_options* options, hvd_reader** reader) {
  return give("hvd_reader_open", reader, [=]() -> Result<hvd_reader*> {
    if (source == nullptr || shard == nullptr)
      return fail(HVD_ERROR_INVALID_ARGUMENT, "no source, or no options for the shard");
    HVD_TRY(const libhvd::ShardOptions read_shard, libhvd::read_shard_options(shard));
    HVD_TRY(libhvd::ReaderOptions read, read_reader_options(options));
    HVD_TRY(libhvd::Reader opened,
            libhvd::Reader::open(source->source, read_shard, std::move(read)));
    return new hvd_reader{std::move(opened)};
  });
}

hvd_status hvd_reader_steps(const hvd_reader* reader, int64_t* steps) {
  return give("hvd_reader_steps", steps, [=]() -> Result<std::int64_t> {
    if (reader == nullptr) return no_reader();
    return reader->reader.steps();
  });
}

hvd_status hvd_reader_next(hvd_reader* reader, const hvd_batch** batch) {
  return give("hvd_reader_next", batch, [=]() -> Result<const hvd_batch*> {
    if (reader == nullptr) return no_reader();
    HVD_TRY(const libhvd::Batch* const next, reader->reader.next());
    if (next == nullptr) return nullptr;
    reader->batch = view(*next);
    return &reader->batch;
  });
}

hvd_status hvd_reader_seek(hvd_reader* reader, int64_t epoch, int64_t step) {
  return guard("hvd_reader_seek", [=]() -> hvd_status {
    const Result<void> outcome =
        reader == nullptr ? Result<void>(no_reader()) : reader->reader.seek(epoch, step);
    if (outcome.ok()) return HVD_OK;
    return libhvd::report(libhvd::with_context("hvd_reader_seek", outcome.error()));
  });
}

void hvd_reader_close(hvd_reader* reader) {
  delete reader;
}

void* hvd_output_resize(hvd_output* output, size_t bytes) {
  try {
    return output->place.resize(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void hvd_output_set_label(hvd_output* output, int64_t label) {
  output->place.set_label(label);
}

void hvd_output_fail(hvd_output* output, const char* message) {
  try {
    output->message = message == nullptr ? "" : message;
  } catch (const std::bad_alloc&) {
    output->message.clear();
  }
}
