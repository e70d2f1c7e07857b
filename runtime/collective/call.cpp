#include "collective/call.hpp"

#include "collective/element.hpp"
#include "common/text.hpp"

#include <bit>
#include <string>

namespace libhvd {
namespace {

std::uint64_t hash_scale(const Scale& scale) {
  if (!scale.any()) return 0;
  const auto before = std::bit_cast<std::uint64_t>(scale.before);
  return std::rotl(before * 0x9e3779b97f4a7c15u, 31) ^ std::bit_cast<std::uint64_t>(scale.after);
}

constexpr std::uint64_t kOnDevice = 0xd1b54a32d192ed03u;
constexpr std::uint64_t kReproducible = 0x2545f4914f6cdd1du;
constexpr std::uint64_t kCompressed = 0xaef17502108ef2d9u;

std::uint64_t hash_shape(std::string_view shape) {
  return shape.empty() ? 0 : std::rotl(hash_name(shape), 17);
}

}  // namespace

std::uint64_t hash_call(const Call& call) {
  return call.name_hash ^ hash_scale(call.scale) ^ hash_shape(call.shape) ^
         (call.on_device ? kOnDevice : 0) ^
         static_cast<std::uint64_t>(call.compression) * kCompressed ^
         (call.reproducible ? kReproducible : 0);
}

std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : name) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  }
  return hash == 0 ? 1 : hash;
}

const char* collective_name(Collective kind) {
  switch (kind) {
    case Collective::allreduce:
      return "allreduce";
    case Collective::broadcast:
      return "broadcast";
    case Collective::allgather:
      return "allgather";
    case Collective::barrier:
      return "barrier";
    case Collective::reducescatter:
      return "reducescatter";
    case Collective::alltoall:
      return "alltoall";
    case Collective::group:
      return "grouped_allreduce";
    case Collective::join:
      return "join";
    case Collective::proposals:
      return "proposals";
  }
  return "unknown";
}

Call make_call(Collective kind, const CallOptions& options) {
  Call call(kind);
  call.scale = options.scale;
  call.name = options.name;
  call.name_hash = options.name_hash;
  call.compression = options.compression;
  if (call.name_hash == 0 && call.name != nullptr) call.name_hash = hash_name(call.name);
  if (!options.shape.empty())
    call.shape = std::string_view(options.shape).substr(0, kShapeBytes - 1);  // and the final zero
  if (!options.fault.empty()) call.fault = options.fault;
  const bool reduces = kind == Collective::allreduce || kind == Collective::group;
  if (call.compression != Compression::none && !reduces && call.fault.empty())
    call.fault = "there is compression for allreduce only";
  return call;
}

CallFacts facts_of(const CallHeader& header, std::uint64_t count) {
  CallFacts facts;
  const Collective kind = header.kind();
  const bool has_rows = kind == Collective::allgather || kind == Collective::reducescatter ||
                        kind == Collective::alltoall;
  const bool has_data = has_rows || kind == Collective::allreduce || kind == Collective::broadcast;
  if (!has_data || header.faulty()) return facts;
  facts.bytes = count * (has_rows ? header.row_size : 1) * element_size(header.type());
  facts.type = static_cast<std::uint8_t>(header.type());
  if (kind == Collective::allreduce || kind == Collective::reducescatter)
    facts.op = static_cast<std::uint8_t>(header.op());
  return facts;
}

CallDetails make_call_details(const Call& call, int rank) {
  CallDetails details{};
  details.rank = rank;
  details.kind = call.kind;
  details.type = call.type;
  details.op = call.op;
  details.root = call.root;
  details.count = call.count;
  details.row_size = call.row_size;
  details.output_rows = call.output_rows;
  details.needed_rows = call.needed_rows;
  details.before = call.scale.before;
  details.after = call.scale.after;
  details.on_device = call.on_device;
  details.compression = call.compression;
  details.reproducible = call.reproducible;
  details.name_hash = call.name_hash;
  details.shape_hash = hash_shape(call.shape);
  if (call.name != nullptr) copy_text(details.name, call.name);
  copy_text(details.shape, call.shape);
  copy_text(details.fault, call.fault.text());
  return details;
}

CallDetails make_call_details(const CallHeader& header, int rank) {
  Call call(header.kind());
  call.type = header.type();
  call.op = header.op();
  call.root = header.root();
  call.count = header.count;
  call.row_size = header.row_size;
  if (header.faulty()) call.fault = "its arguments are not valid";
  return make_call_details(call, rank);
}

std::string quoted_name(const CallDetails& details) {
  if (details.name_hash == 0) return "none";
  return '"' + std::string(field_text(details.name)) + '"';
}

std::string describe_call(const CallDetails& details) {
  std::string text = collective_name(details.kind);
  if (details.name_hash != 0) text += " " + quoted_name(details);
  return text;
}

}  // namespace libhvd
