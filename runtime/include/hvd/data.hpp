// Training data for C++20: hvd/data.h with owners, spans and exceptions (hvd::Error). Header only.
//
//   hvd::Shard shard({.samples = n, .batch = 64, .epoch = epoch, .seed = 1});
//   for (std::int64_t step = 0; step < shard.steps(); ++step) {
//     for (const std::int64_t sample : shard.step(step)) add_gradient_of(sample);
//     hvd::allreduce(std::span(gradient), hvd::Op::sum);
//     scale(gradient, 1.0 / shard.batch_size(step));
//   }
//
//   hvd::Reader reader(hvd::Source::folder("train"), {.batch = 64, .seed = 1},
//                      {.threads = 4, .decode = decode_jpeg});
//   for (int epoch = 0; epoch < epochs; ++epoch)
//     while (const auto batch = reader.next()) train(*batch);
#ifndef HVD_DATA_HPP_
#define HVD_DATA_HPP_

#include "hvd/data.h"
#include "hvd/hvd.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace hvd {

// See hvd_remainder.
enum class Remainder : hvd_remainder {
  uneven = HVD_REMAINDER_UNEVEN,
  pad = HVD_REMAINDER_PAD,
  drop = HVD_REMAINDER_DROP,
};

// See hvd_shard_options.
struct ShardOptions {
  std::int64_t samples = 0;
  std::int64_t batch = 0;  // of all ranks together
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;
  bool shuffle = true;
  Remainder remainder = Remainder::uneven;
  int rank = 0;
  int size = 0;  // number of ranks; 0: this job's size and rank
};

namespace detail {

inline hvd_shard_options to_c(const ShardOptions& options) {
  hvd_shard_options c{};
  c.struct_size = sizeof c;
  c.samples = options.samples;
  c.batch = options.batch;
  c.epoch = options.epoch;
  c.seed = options.seed;
  c.shuffle = options.shuffle ? 1 : 0;
  c.remainder = static_cast<hvd_remainder>(options.remainder);
  c.rank = options.rank;
  c.size = options.size;
  return c;
}

}  // namespace detail

// One rank's samples in one epoch; see hvd_shard.
class Shard {
 public:
  explicit Shard(const ShardOptions& options) {
    const hvd_shard_options c = detail::to_c(options);
    hvd_shard* shard = nullptr;
    detail::check(hvd_shard_create(&c, &shard));
    shard_.reset(shard);
  }

  // Returns the number of steps, which is the same on all ranks.
  std::int64_t steps() const {
    std::int64_t steps = 0;
    detail::check(hvd_shard_steps(shard_.get(), &steps));
    return steps;
  }
  // Returns the indices of this rank's samples of a step; valid until the next call of step().
  std::span<const std::int64_t> step(std::int64_t step) {
    const std::int64_t* indices = nullptr;
    std::size_t count = 0;
    detail::check(hvd_shard_step(shard_.get(), step, &indices, &count));
    return {indices, count};
  }
  // Returns the samples of all ranks together in a step. Divide a sum of gradients by this number.
  std::int64_t batch_size(std::int64_t step) const {
    std::int64_t samples = 0;
    detail::check(hvd_shard_batch_size(shard_.get(), step, &samples));
    return samples;
  }

 private:
  struct Free {
    void operator()(hvd_shard* shard) const { hvd_shard_free(shard); }
  };
  std::unique_ptr<hvd_shard, Free> shard_;
};

// Samples on a disk; see hvd_source. Any number of readers may use it.
class Source {
 public:
  // Opens a folder with one sub-folder for each class, the layout of torchvision's ImageFolder.
  static Source folder(const std::string& path) { return open_folder(path, nullptr); }
  // Opens it with these files only: ".jpg,.png"; "" for all files.
  static Source folder(const std::string& path, const std::string& extensions) {
    return open_folder(path, extensions.c_str());
  }
  // Opens a TFRecord file.
  static Source tfrecord(const std::string& path) {
    hvd_source* source = nullptr;
    detail::check(hvd_source_open_tfrecord(path.c_str(), &source));
    return Source(source);
  }
  // Opens a file of records of the same length, after a header that is skipped.
  static Source fixed(const std::string& path, std::size_t record_bytes,
                      std::size_t header_bytes = 0) {
    hvd_source* source = nullptr;
    detail::check(hvd_source_open_fixed(path.c_str(), record_bytes, header_bytes, &source));
    return Source(source);
  }

  std::int64_t samples() const {
    std::int64_t samples = 0;
    detail::check(hvd_source_samples(source_.get(), &samples));
    return samples;
  }
  // Returns the number of classes of a folder; 0 for records.
  std::int64_t classes() const {
    std::int64_t classes = 0;
    detail::check(hvd_source_classes(source_.get(), &classes));
    return classes;
  }
  std::string class_name(std::int64_t label) const {
    const char* name = nullptr;
    detail::check(hvd_source_class_name(source_.get(), label, &name));
    return name;
  }
  // Returns a checksum of the samples' names, classes and number; see hvd_source_fingerprint.
  std::uint32_t fingerprint() const {
    std::uint32_t fingerprint = 0;
    detail::check(hvd_source_fingerprint(source_.get(), &fingerprint));
    return fingerprint;
  }
  // Throws on all ranks if they do not all see the same files. A collective.
  void check_same_on_all_ranks() const {
    const std::int64_t own = fingerprint();
    std::array<std::int64_t, 2> edges{own, -own};
    allreduce(std::span(edges), Op::max, "fingerprint of the data");
    if (edges[0] != -edges[1]) {
      throw Error(HVD_ERROR_MISMATCH, "the ranks do not see the same files of training data");
    }
  }

  const hvd_source* get() const { return source_.get(); }

 private:
  struct Free {
    void operator()(hvd_source* source) const { hvd_source_free(source); }
  };
  explicit Source(hvd_source* source) : source_(source) {}
  static Source open_folder(const std::string& path, const char* extensions) {
    hvd_source* source = nullptr;
    detail::check(hvd_source_open_folder(path.c_str(), extensions, &source));
    return Source(source);
  }
  std::unique_ptr<hvd_source, Free> source_;
};

// A sample as it was read; see hvd_sample.
struct Sample {
  std::int64_t index;  // in the source
  std::int64_t label;  // -1: the source has no labels
  std::span<const std::byte> data;
  std::string_view name;  // the file, or "FILE record N": for messages
};

// The result of a decode callback for one sample; see hvd_output.
class Output {
 public:
  explicit Output(hvd_output* output) : output_(output) {}
  // Makes the output this long and returns its bytes, for the callback to fill.
  std::span<std::byte> resize(std::size_t bytes) {
    void* const data = hvd_output_resize(output_, bytes);
    if (data == nullptr && bytes > 0) throw std::bad_alloc();
    return {static_cast<std::byte*>(data), bytes};
  }
  void set_label(std::int64_t label) { hvd_output_set_label(output_, label); }

 private:
  hvd_output* output_;
};

// A decode callback. Runs on the reader's threads, for several samples at the same time. An
// exception that it throws becomes the error of that step.
using Decode = std::function<void(const Sample&, Output&)>;

// See hvd_reader_options.
struct ReaderOptions {
  int threads = 2;
  int prefetch = 4;         // batches to keep ready besides the one in use
  bool cache = false;       // keep every sample's bytes for later epochs
  Decode decode = nullptr;  // null: samples are delivered as they were read
};

// This rank's part of a step's batch; see hvd_batch. Valid until the next call on its reader.
class Batch {
 public:
  explicit Batch(const hvd_batch& batch) : batch_(&batch) {}

  std::int64_t epoch() const { return batch_->epoch; }
  std::int64_t step() const { return batch_->step; }
  std::int64_t batch_size() const { return batch_->batch_size; }  // of all ranks together
  std::size_t size() const { return batch_->count; }              // of this rank
  std::span<const std::int64_t> indices() const { return {batch_->indices, size()}; }
  std::span<const std::int64_t> labels() const { return {batch_->labels, size()}; }
  // Returns the bytes of all samples, one sample after the other.
  std::span<const std::byte> data() const {
    return {reinterpret_cast<const std::byte*>(batch_->data), batch_->offsets[size()]};
  }
  // Returns the bytes of sample `i`, 0 ... size()-1.
  std::span<const std::byte> sample(std::size_t i) const {
    return data().subspan(batch_->offsets[i], batch_->offsets[i + 1] - batch_->offsets[i]);
  }

 private:
  const hvd_batch* batch_;
};

// Reads a source in the order of a shard on background threads; see hvd_reader.
class Reader {
 public:
  // Starts to read at once. shard.samples may be 0: all samples of the source.
  Reader(const Source& source, const ShardOptions& shard, ReaderOptions options = {})
      : decode_(std::make_unique<Decode>(std::move(options.decode))) {
    const hvd_shard_options c_shard = detail::to_c(shard);
    hvd_reader_options c{};
    c.struct_size = sizeof c;
    c.threads = options.threads;
    c.prefetch = options.prefetch;
    c.cache = options.cache ? 1 : 0;
    if (*decode_) {
      c.decode = call_decode;
      c.context = decode_.get();
    }
    hvd_reader* reader = nullptr;
    detail::check(hvd_reader_open(source.get(), &c_shard, &c, &reader));
    reader_.reset(reader);
  }

  // Returns the number of steps of an epoch.
  std::int64_t steps() const {
    std::int64_t steps = 0;
    detail::check(hvd_reader_steps(reader_.get(), &steps));
    return steps;
  }
  // Returns the batch of the next step; nullopt, once, at the end of an epoch.
  std::optional<Batch> next() {
    const hvd_batch* batch = nullptr;
    detail::check(hvd_reader_next(reader_.get(), &batch));
    if (batch == nullptr) return std::nullopt;
    return Batch(*batch);
  }
  // Continues at a step of an epoch.
  void seek(std::int64_t epoch, std::int64_t step = 0) {
    detail::check(hvd_reader_seek(reader_.get(), epoch, step));
  }

 private:
  struct Close {
    void operator()(hvd_reader* reader) const { hvd_reader_close(reader); }
  };

  static hvd_status call_decode(void* context, const hvd_sample* sample, hvd_output* output) {
    try {
      Output out(output);
      const Sample in{sample->index,
                      sample->label,
                      {static_cast<const std::byte*>(sample->data), sample->bytes},
                      sample->name};
      (*static_cast<const Decode*>(context))(in, out);
      return HVD_OK;
    } catch (const std::exception& exception) {
      hvd_output_fail(output, exception.what());
    } catch (...) {
      hvd_output_fail(output, "an exception of an unknown type");
    }
    return HVD_ERROR_SYSTEM;
  }

  std::unique_ptr<Decode> decode_;  // outlives the reader's threads
  std::unique_ptr<hvd_reader, Close> reader_;
};

// Writes a TFRecord file, which appears under its name when it is closed. Without close() nothing
// is left of it.
class RecordWriter {
 public:
  explicit RecordWriter(const std::string& path) {
    hvd_record_writer* writer = nullptr;
    detail::check(hvd_record_writer_open(path.c_str(), &writer));
    writer_.reset(writer);
  }
  void write(std::span<const std::byte> record) {
    detail::check(hvd_record_writer_write(writer_.get(), record.data(), record.size()));
  }
  void write(std::string_view record) { write(std::as_bytes(std::span(record))); }
  void close() { detail::check(hvd_record_writer_close(writer_.release())); }

 private:
  struct Discard {
    void operator()(hvd_record_writer* writer) const { hvd_record_writer_discard(writer); }
  };
  std::unique_ptr<hvd_record_writer, Discard> writer_;
};

}  // namespace hvd

#endif  // HVD_DATA_HPP_
