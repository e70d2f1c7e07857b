#include "collective/hosts_allreduce.hpp"

#include "collective/element.hpp"
#include "collective/reduce.hpp"
#include "collective/staging.hpp"

#include <algorithm>
#include <cstring>

namespace libhvd {
namespace {

// How many stretches the staging holds: of each rank's input, and of the results. A rank's partial
// results have room for as many as its input.
constexpr std::size_t kInputs = 2;
constexpr std::size_t kResults = 3;

// Elements of a compressed call that are worked on at a time, in the first-level cache.
constexpr std::size_t kBlock = 512;
static_assert(kBlock % kCompressedBlock == 0);

// Up to this size, in bytes of the call, one connection between two hosts of a rank each is faster
// than two (measured).
constexpr std::size_t kMostBytesOfOneChannel = std::size_t{1} << 20;

// Returns the bytes of a stretch that the ranks of a host show each other. It is the same on all
// hosts, because they work on the same stretches. The host with the most ranks has as many ranks as
// there are channels. A slice stays in the caches of the processor that reduces it (measured with
// two and four ranks a host). The staging of a host with many ranks stays below 32 MiB.
std::size_t shown_stretch_bytes(int channels) {
  constexpr std::size_t kSliceBytes = 64 * 1024;
  constexpr std::size_t kStagingBytes = std::size_t{32} << 20;
  constexpr std::size_t kLeastBytes = 64 * 1024;
  constexpr std::size_t kUnit = 4096;
  const auto slices = static_cast<std::size_t>(channels);
  const std::size_t places = static_cast<std::size_t>(kLanes) * (kInputs * slices + kResults);
  const std::size_t most = std::min(kMostStretchBytes, kSliceBytes * slices);
  return std::clamp(kStagingBytes / places / kUnit * kUnit, kLeastBytes, most);
}

std::size_t modulo(int index, std::size_t places) {
  return static_cast<std::size_t>(index) % places;
}

}  // namespace

HostsAllreduce::HostsAllreduce(StepBarrier& steps, int lane, std::shared_ptr<Streams> streams)
    : steps_(steps),
      streams_(std::move(streams)),
      plan_(streams_->plan()),
      host_(static_cast<int>(steps.segment()->header().host)),
      locals_(plan_.ranks_on(host_)),
      own_(static_cast<std::size_t>(std::find(locals_.begin(), locals_.end(), steps.rank()) -
                                    locals_.begin())),
      in_two_parts_(steps.size() > plan_.hosts()),
      stretch_bytes_(in_two_parts_ ? shown_stretch_bytes(plan_.channels()) : kMostStretchBytes),
      staging_(steps.segment()->staging(lane)) {
  for (int channel = 0; channel < plan_.channels(); ++channel) {
    if (plan_.server(channel, host_) == steps.rank()) channels_.push_back(channel);
  }
}

std::size_t HostsAllreduce::staging_bytes(std::size_t local_ranks, int channels) {
  return (kInputs * local_ranks + kResults) * shown_stretch_bytes(channels);
}

// Returns how many channels a call uses. All do so the same way.
int HostsAllreduce::channels_for(std::size_t bytes) const {
  return !in_two_parts_ && bytes <= kMostBytesOfOneChannel ? 1 : plan_.channels();
}

// Divides the data of a call. On hosts of one rank nothing is shown, so a stretch may be as long as
// is good for the connections: a compressed one has the bytes of another one.
Stretches HostsAllreduce::divide(const Call& call, std::size_t partial, bool compressed) const {
  const int channels = channels_for(call.count * element_size(call.type));
  if (!compressed) return {call.count, partial, channels, plan_.hosts(), stretch_bytes_};
  const std::size_t longest = std::max(partial, element_size(call.type));
  const std::size_t shorter = call.compression == Compression::int8 ? 4 : 2;
  const std::size_t bytes = in_two_parts_ ? stretch_bytes_ : stretch_bytes_ * shorter;
  return {call.count, longest, channels, plan_.hosts(), bytes};
}

std::optional<Failure> HostsAllreduce::run(const Call& call, const std::byte* input,
                                           std::byte* output, float* residuals) {
  const std::size_t element = element_size(call.type);
  const bool by_inputs = call.reproducible;
  const bool compressed = call.compression != Compression::none && !by_inputs;
  std::size_t partial = element;
  if (compressed) partial = sizeof(float);
  if (in_two_parts_ && !compressed && !by_inputs) partial = partial_size(call.op, call.type);
  const Stretches stretches = divide(call, partial, compressed);
  const auto channels = static_cast<std::size_t>(channels_for(call.count * element));
  const std::size_t served = std::min(channels_.size(), channels);
  Job job{call,      input,      output,    element, partial, stretches,
          residuals, compressed, by_inputs, served,  0};
  // A multiple of what the results of a piece must be aligned to.
  job.most_sent = (job.partial_bytes(job.stretches.most_in_piece()) + 15) / 16 * 16;
  const auto hosts = static_cast<std::size_t>(plan_.hosts());
  const auto sources = by_inputs ? static_cast<std::size_t>(steps_.size()) : hosts;
  const std::size_t slice = job.stretches.most_in_slice() * partial;
  partials_.resize(std::max(partials_.size(),
                            kInputs * channels_.size() * slice * (by_inputs ? locals_.size() : 1)));
  received_.resize(std::max(received_.size(), channels_.size() * sources * job.most_sent));
  if (compressed)
    sent_.resize(std::max(sent_.size(), kInputs * channels_.size() * (hosts + 1) * job.most_sent));
  const int last = job.stretches.count() + (shares() ? 2 : 1);
  for (int index = 0; index <= last; ++index) {
    if (auto failure = turn(job, index)) return failure;
  }
  return std::nullopt;
}

std::optional<Failure> HostsAllreduce::turn(const Job& job, int index) {
  const int count = job.stretches.count();
  streams_->mark();
  if (shares() && index < count) show(job, index);
  if (shares() && (index < count || index >= 3)) {
    if (auto failure = steps_.step_on_host()) return failure;
  }
  if (index < count) begin(job, index);
  if (shares() && index >= 3) copy_results(job, index - 3);
  // Results become due in the last wait of a turn, because the other hosts take them only there.
  const bool waits_for_results = index >= 2 && index <= count + 1;
  if (!waits_for_results) streams_->call_due();
  if (index >= 1 && index <= count) {
    if (auto failure = take_pieces(job, index - 1)) return failure;
  }
  if (!waits_for_results) return std::nullopt;
  streams_->call_due();
  return take_results(job, index - 2);
}

// Shows the host's other ranks the slices that they reduce.
void HostsAllreduce::show(const Job& job, int index) {
  const std::size_t first = job.stretches.stretch(index).begin;
  for (int channel = 0; channel < plan_.channels(); ++channel) {
    if (plan_.server(channel, host_) == steps_.rank()) continue;
    const auto [begin, count] = job.stretches.slice(index, channel);
    copy_bytes(input_of(own_, index) + (begin - first) * job.element,
               job.input + begin * job.element, count * job.element);
  }
}

// Returns whether this host's partial result is its only rank's input, as it is.
bool HostsAllreduce::sends_input(const Job& job) const {
  if (job.compressed) return false;
  if (job.by_inputs) return !shares();
  if (!in_two_parts_) return true;
  return !shares() && job.partial_element == job.element && job.call.type != HVD_BOOL &&
         job.call.scale.before == 1;
}

void HostsAllreduce::begin(const Job& job, int index) {
  for (std::size_t served = 0; served < job.served; ++served) {
    if (!sends_input(job)) begin_slice(job, index, served);
    for (int host = 0; host < plan_.hosts(); ++host) {
      if (host != host_) send_piece(job, index, served, host);
    }
  }
}

void HostsAllreduce::send_piece(const Job& job, int index, std::size_t served, int host) {
  const int channel = channels_[served];
  const Range piece = job.stretches.piece(index, channel, host);
  const std::size_t bytes = job.partial_bytes(piece.count);
  if (job.compressed)
    return streams_->send(channel, host, compress_piece(job, index, served, host, piece), bytes);
  if (!job.by_inputs || !shares())
    return streams_->send(channel, host, own_piece(job, index, served, piece), bytes);
  for (std::size_t local = 0; local < locals_.size(); ++local)
    streams_->send(channel, host, partial_of(job, index, served, piece, local), bytes);
}

void HostsAllreduce::begin_slice(const Job& job, int index, std::size_t served) {
  const Range slice = job.stretches.slice(index, channels_[served]);
  std::byte* const partial = partial_of(job, index, served, slice);
  take_sources(job, index, slice);
  if (job.by_inputs) return begin_inputs(job, index, served, slice);
  if (job.compressed) return begin_compressed_slice(job, slice, reinterpret_cast<float*>(partial));
  reduce_begin(job.call.op, job.call.type, sources_, partial, slice.count, job.call.scale);
}

// Finds the inputs of this host's ranks.
void HostsAllreduce::take_sources(const Job& job, int index, Range slice) {
  const std::size_t first = job.stretches.stretch(index).begin;
  sources_.clear();
  for (std::size_t local = 0; local < locals_.size(); ++local) {
    sources_.push_back(local == own_
                           ? aligned_input(job, slice)
                           : input_of(local, index) + (slice.begin - first) * job.element);
  }
}

// Copies the inputs of this host's ranks, which these overwrite before the copies are on their way.
void HostsAllreduce::begin_inputs(const Job& job, int index, std::size_t served, Range slice) {
  for (std::size_t local = 0; local < locals_.size(); ++local)
    copy_bytes(partial_of(job, index, served, slice, local), sources_[local],
               slice.count * job.element);
}

// Makes the partial result of a compressed call.
void HostsAllreduce::begin_compressed_slice(const Job& job, Range slice, float* partial) {
  const Call& call = job.call;
  const double divisor = call.op == HVD_AVERAGE ? steps_.size() : 1;
  const auto factor = static_cast<float>(call.scale.after / divisor);
  for (std::size_t begin = 0; begin < slice.count; begin += kBlock) {
    const std::size_t now = std::min(kBlock, slice.count - begin);
    float* const to = partial + begin;
    if (call.type == HVD_FLOAT64) {
      double wide[kBlock];
      reduce_begin(HVD_SUM, call.type, sources_, wide, now, call.scale);
      std::transform(wide, wide + now, to, [](double value) { return static_cast<float>(value); });
    } else {
      reduce_begin(HVD_SUM, call.type, sources_, to, now, call.scale);
    }
    if (factor != 1) {
      for (std::size_t i = 0; i < now; ++i) to[i] *= factor;
    }
    for (const void*& source : sources_) source = bytes_of(source) + now * job.element;
  }
}

// Returns this host's part of a piece in the form in which it is sent.
const std::byte* HostsAllreduce::compress_piece(const Job& job, int index, std::size_t served,
                                                int host, Range piece) {
  std::byte* const sent = sent_piece(job, index, served, host);
  compress(job.call.compression,
           reinterpret_cast<const float*>(partial_of(job, index, served, piece)),
           job.residuals == nullptr ? nullptr : job.residuals + piece.begin, piece.count, sent);
  return sent;
}

// Returns this host's part of a piece, as it is sent. It need not be aligned.
const std::byte* HostsAllreduce::own_piece(const Job& job, int index, std::size_t served,
                                           Range piece) {
  return sends_input(job) ? job.input + piece.begin * job.element
                          : partial_of(job, index, served, piece);
}

// Returns the input of this rank, or an aligned copy that is valid until the next call.
const std::byte* HostsAllreduce::aligned_input(const Job& job, Range range) {
  const std::byte* const input = job.input + range.begin * job.element;
  if (aligned(input, job.element)) return input;
  aligned_.resize(std::max(aligned_.size(), range.count * job.element));
  copy_bytes(aligned_.data(), input, range.count * job.element);
  return aligned_.data();
}

std::optional<Failure> HostsAllreduce::take_pieces(const Job& job, int index) {
  for (std::size_t served = 0; served < job.served; ++served) {
    const Range piece = job.stretches.piece(index, channels_[served], host_);
    const auto receive = [&](int host, int source) {
      streams_->receive(channels_[served], host, received_from(job, served, source),
                        job.partial_bytes(piece.count));
    };
    for (int host = 0; host < plan_.hosts(); ++host) {
      if (host == host_) continue;
      if (!job.by_inputs) receive(host, host);
      for (const int rank : plan_.ranks_on(host)) {
        if (job.by_inputs) receive(host, rank);
      }
    }
  }
  if (auto failure = wait()) return failure;
  for (std::size_t served = 0; served < job.served; ++served) finish(job, index, served);
  return std::nullopt;
}

// Finds what a piece is reduced of: all hosts' parts of it, or all ranks' inputs.
void HostsAllreduce::find_parts(const Job& job, int index, std::size_t served, Range piece) {
  const auto own = [&](std::size_t local) -> const std::byte* {
    return sends_input(job) ? aligned_input(job, piece)
                            : partial_of(job, index, served, piece, local);
  };
  sources_.clear();
  if (!job.by_inputs) {
    for (int host = 0; host < plan_.hosts(); ++host)
      sources_.push_back(host == host_ ? own(0) : received_from(job, served, host));
    return;
  }
  for (int rank = 0; rank < steps_.size(); ++rank)
    sources_.push_back(received_from(job, served, rank));
  for (std::size_t local = 0; local < locals_.size(); ++local)
    sources_[static_cast<std::size_t>(locals_[local])] = own(local);
}

// Reduces all parts of this host's piece, and sends the result.
void HostsAllreduce::finish(const Job& job, int index, std::size_t served) {
  const int channel = channels_[served];
  const Range piece = job.stretches.piece(index, channel, host_);
  if (job.compressed) return finish_compressed(job, index, served, piece);
  const Call& call = job.call;
  find_parts(job, index, served, piece);
  std::byte* const place = result_at(job, index, piece);
  std::byte* result = place;
  if (!aligned(place, job.element)) {
    aligned_.resize(std::max(aligned_.size(), piece.count * job.element));
    result = aligned_.data();
  }
  if (in_two_parts_ && !job.by_inputs) {
    reduce_end(call.op, call.type, sources_, static_cast<std::size_t>(steps_.size()), result,
               piece.count, call.scale);
  } else {
    reduce(call.op, call.type, sources_, result, piece.count, call.scale);
  }
  if (result != place) copy_bytes(place, result, piece.count * job.element);
  for (int host = 0; host < plan_.hosts(); ++host) {
    if (host != host_) streams_->send(channel, host, place, piece.count * job.element);
  }
}

// Does the same in a compressed call. This host stores the result as the others will get it.
void HostsAllreduce::finish_compressed(const Job& job, int index, std::size_t served, Range piece) {
  const Compression compression = job.call.compression;
  std::byte* const sent = sent_result(job, index, served);
  const auto* const own = reinterpret_cast<const float*>(partial_of(job, index, served, piece));
  float sum[kBlock];
  float part[kBlock];
  for (std::size_t begin = 0; begin < piece.count; begin += kBlock) {
    const std::size_t now = std::min(kBlock, piece.count - begin);
    const std::size_t at = compressed_bytes(compression, begin);
    for (int host = 0; host < plan_.hosts(); ++host) {
      const float* next = own + begin;
      if (host != host_) {
        decompress(compression, received_from(job, served, host) + at, now, part);
        next = part;
      }
      for (std::size_t i = 0; i < now; ++i) sum[i] = host == 0 ? next[i] : sum[i] + next[i];
    }
    compress(compression, sum,
             job.residuals == nullptr ? nullptr : job.residuals + piece.begin + begin, now,
             sent + at);
  }
  store(job, sent, piece, result_at(job, index, piece));
  for (int host = 0; host < plan_.hosts(); ++host) {
    if (host == host_) continue;
    streams_->send(channels_[served], host, sent, job.result_bytes(piece.count));
  }
}

// Stores compressed results in the type of the call.
void HostsAllreduce::store(const Job& job, const std::byte* compressed, Range range,
                           std::byte* place) {
  const Call& call = job.call;
  float values[kBlock];
  alignas(double) std::byte stored[kBlock * sizeof(double)];
  for (std::size_t begin = 0; begin < range.count; begin += kBlock) {
    const std::size_t now = std::min(kBlock, range.count - begin);
    decompress(call.compression, compressed + compressed_bytes(call.compression, begin), now,
               values);
    const void* result = values;
    if (call.type == HVD_FLOAT64) {
      std::copy_n(values, now, reinterpret_cast<double*>(stored));
      result = stored;
    } else if (call.type != HVD_FLOAT32) {
      reduce_end(HVD_SUM, call.type, {&result, 1}, 1, stored, now, {});
      result = stored;
    }
    std::memcpy(place + begin * job.element, result, now * job.element);
  }
}

std::optional<Failure> HostsAllreduce::take_results(const Job& job, int index) {
  const auto each = [&](auto body) {
    for (std::size_t served = 0; served < job.served; ++served) {
      for (int host = 0; host < plan_.hosts(); ++host) {
        if (host == host_) continue;
        const Range piece = job.stretches.piece(index, channels_[served], host);
        body(served, host, piece, result_at(job, index, piece));
      }
    }
  };
  each([&](std::size_t served, int host, Range piece, std::byte* place) {
    streams_->receive(channels_[served], host,
                      job.compressed ? received_from(job, served, host) : place,
                      job.result_bytes(piece.count));
  });
  if (auto failure = wait()) return failure;
  if (!job.compressed) return std::nullopt;
  each([&](std::size_t served, int host, Range piece, std::byte* place) {
    store(job, received_from(job, served, host), piece, place);
  });
  return std::nullopt;
}

void HostsAllreduce::copy_results(const Job& job, int index) const {
  const auto [begin, count] = job.stretches.stretch(index);
  copy_bytes(job.output + begin * job.element, results(index), count * job.element);
}

std::optional<Failure> HostsAllreduce::wait() {
  return steps_.wait_outside([this](int most_ms) { return streams_->turn(most_ms); });
}

// Returns where all ranks of the host find a result: with one rank, in its output.
std::byte* HostsAllreduce::result_at(const Job& job, int index, Range range) const {
  if (!shares()) return job.output + range.begin * job.element;
  return results(index) + (range.begin - job.stretches.stretch(index).begin) * job.element;
}

std::byte* HostsAllreduce::input_of(std::size_t local, int index) const {
  return staging_.data() + (kInputs * local + modulo(index, kInputs)) * stretch_bytes_;
}

std::byte* HostsAllreduce::results(int index) const {
  return staging_.data() + (kInputs * locals_.size() + modulo(index, kResults)) * stretch_bytes_;
}

// Returns the partial result of a range within the slice of a served channel, or the input of one
// of this host's ranks.
std::byte* HostsAllreduce::partial_of(const Job& job, int index, std::size_t served, Range range,
                                      std::size_t local) {
  const std::size_t first = job.stretches.slice(index, channels_[served]).begin;
  std::size_t place = modulo(index, kInputs) * channels_.size() + served;
  if (job.by_inputs) place = place * locals_.size() + local;
  return partials_.data() +
         (place * job.stretches.most_in_slice() + (range.begin - first)) * job.partial_element;
}

// Returns the place of what host `source` sends; of rank `source`'s input if inputs are sent.
std::byte* HostsAllreduce::received_from(const Job& job, std::size_t served, int source) {
  const int sources = job.by_inputs ? steps_.size() : plan_.hosts();
  const std::size_t place =
      served * static_cast<std::size_t>(sources) + static_cast<std::size_t>(source);
  return received_.data() + place * job.most_sent;
}

// Return the places of a stretch's compressed pieces and results until they are sent.
std::byte* HostsAllreduce::sent_piece(const Job& job, int index, std::size_t served, int host) {
  const auto hosts = static_cast<std::size_t>(plan_.hosts());
  const std::size_t place = (modulo(index, kInputs) * channels_.size() + served) * (hosts + 1);
  return sent_.data() + (place + static_cast<std::size_t>(host)) * job.most_sent;
}

std::byte* HostsAllreduce::sent_result(const Job& job, int index, std::size_t served) {
  return sent_piece(job, index, served, plan_.hosts());
}

}  // namespace libhvd
