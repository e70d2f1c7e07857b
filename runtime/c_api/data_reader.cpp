// The C ABI of hvd/data.h: the reader.
#include "c_api/data.hpp"
#include "c_api/give.hpp"
#include "io/reader.hpp"

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <utility>

using libhvd::fail;
using libhvd::give;
using libhvd::guard;
using libhvd::Result;

struct hvd_output {
  libhvd::SampleOutput& place;
  std::string message;  // of hvd_output_fail
};

struct hvd_reader {
  libhvd::Reader reader;
  libhvd::JobsNumbers numbers;
  hvd_batch batch{};  // the last one returned

  Result<void> follow() {
    return numbers.follow([this](int size, int rank) { return reader.divide_among(size, rank); });
  }
};

namespace {

libhvd::Error no_reader() {
  return fail(HVD_ERROR_INVALID_ARGUMENT, "no reader");
}

// Returns a Decode that calls the program's function and makes an Error of its failure.
libhvd::Decode wrap(hvd_decode decode, void* context) {
  if (decode == nullptr) return nullptr;
  return [=](const libhvd::Sample& sample, libhvd::SampleOutput& place) -> Result<void> {
    const hvd_sample c{sample.index, sample.label, sample.data.data(), sample.data.size(),
                       sample.name.c_str()};
    hvd_output output{place, {}};
    const hvd_status status = decode(context, &c, &output);
    if (status == HVD_OK) return Result<void>();
    if (output.message.empty()) output.message = "decode failed with " + std::to_string(status);
    return fail(HVD_ERROR_SYSTEM, std::move(output.message));
  };
}

// Returns the options of a reader; null: all defaults.
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

// Returns the C struct for a batch, whose memory it refers to.
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
    return new hvd_reader{std::move(opened), libhvd::JobsNumbers(*shard)};
  });
}

hvd_status hvd_reader_steps(const hvd_reader* reader, int64_t* steps) {
  return give("hvd_reader_steps", steps, [=]() -> Result<std::int64_t> {
    if (reader == nullptr) return no_reader();
    HVD_CHECK(const_cast<hvd_reader*>(reader)->follow());
    return reader->reader.steps();
  });
}

hvd_status hvd_reader_next(hvd_reader* reader, const hvd_batch** batch) {
  return give("hvd_reader_next", batch, [=]() -> Result<const hvd_batch*> {
    if (reader == nullptr) return no_reader();
    HVD_CHECK(reader->follow());
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
