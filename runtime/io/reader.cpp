#include "io/reader.hpp"

#include <string>
#include <utility>

#include <unistd.h>

namespace libhvd {
namespace {

Error invalid_reader(const std::string& message) {
  return fail(HVD_ERROR_INVALID_ARGUMENT, "reader: " + message);
}

Result<void> check_reader(const ReaderOptions& options) {
  if (options.threads < 1 || options.threads > 1024)
    return invalid_reader("threads is " + std::to_string(options.threads) +
                          "; it must be 1 to 1024");
  if (options.prefetch < 1 || options.prefetch > 65536)
    return invalid_reader("prefetch is " + std::to_string(options.prefetch) +
                          "; it must be 1 to 65536");
  return {};
}

Error forked_error() {
  return fail(HVD_ERROR_FORKED,
              "reader: the process that opened it forked this one, and its threads are not here; "
              "open a reader in this process");
}

}  // namespace

Result<Reader> Reader::open(std::shared_ptr<const Source> source, const ShardOptions& shard,
                            ReaderOptions options) {
  HVD_CHECK(check_reader(options));
  ShardOptions own = shard;
  if (own.samples != 0 && own.samples != source->samples())
    return invalid_reader("samples is " + std::to_string(own.samples) + ", but the source has " +
                          std::to_string(source->samples()) + "; leave it 0");
  own.samples = source->samples();
  auto loader = std::make_unique<Loader>(std::move(source), options.cache,
                                         std::exchange(options.decode, nullptr));
  Reader reader(std::move(loader), own, options);
  HVD_CHECK(reader.begin(own.epoch, 0));
  return reader;
}

Reader::Reader(std::unique_ptr<Loader> loader, const ShardOptions& shard,
               const ReaderOptions& options)
    : shard_options_(shard),
      threads_(options.threads),
      prefetch_(options.prefetch),
      owner_(::getpid()),
      loader_(std::move(loader)) {}

Reader::~Reader() {
  if (owner_ == ::getpid()) return;
  // In a forked child, joining the threads or taking a lock that one of them held would never end.
  static_cast<void>(pipeline_.release());
  static_cast<void>(loader_.release());
}

// Starts a pipeline at that position. Error: the old pipeline remains.
Result<void> Reader::begin(std::int64_t epoch, std::int64_t step) {
  Pipeline::Options options{shard_options_, step, threads_, prefetch_};
  options.shard.epoch = epoch;
  HVD_TRY(Shard shard, Shard::make(options.shard));
  const std::int64_t steps = shard.steps();
  if (step < 0 || step > steps)
    return invalid_reader("there is no step " + std::to_string(step) +
                          " to continue at; an epoch has " + std::to_string(steps));
  std::unique_ptr<Pipeline> pipeline;
  if (steps > 0) {
    pipeline =
        std::make_unique<Pipeline>(*loader_, std::make_shared<Shard>(std::move(shard)), options);
    HVD_CHECK(pipeline->start());
  }
  pipeline_ = std::move(pipeline);
  steps_ = steps;
  epoch_ = epoch;
  step_ = step;
  return {};
}

Result<void> Reader::seek(std::int64_t epoch, std::int64_t step) {
  if (owner_ != ::getpid()) return forked_error();
  return begin(epoch, step);
}

Result<void> Reader::divide_among(int size, int rank) {
  if (owner_ != ::getpid()) return forked_error();
  const ShardOptions before = shard_options_;
  shard_options_.size = size;
  shard_options_.rank = rank;
  auto begun = begin(epoch_, step_);
  if (!begun.ok()) shard_options_ = before;
  return begun;
}

Result<const Batch*> Reader::next() {
  if (owner_ != ::getpid()) return forked_error();
  if (step_ == steps_) {
    step_ = 0;
    ++epoch_;
    return nullptr;
  }
  ++step_;
  return pipeline_->next();
}

}  // namespace libhvd
