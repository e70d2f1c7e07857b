#include "bootstrap/wireup_messages.hpp"

#include "bootstrap/rank_info.hpp"
#include "bootstrap/rendezvous_frame.hpp"
#include "common/text.hpp"
#include "transport/bridge_link.hpp"

#include <algorithm>
#include <bit>
#include <charconv>

#include <netdb.h>

namespace libhvd {
namespace {

// Returns what must be equal on all hosts so that their segments have the same layout.
std::string layout() {
  return "7 " + std::to_string(kChunkBytes) + " " + std::to_string(sizeof(FrameHead)) +
         (std::endian::native == std::endian::little ? " little" : " big");
}

Error other_version() {
  return fail(HVD_ERROR_SYSTEM, "a rank runs another version of libhvd, or on another kind of CPU");
}

template <class Number>
bool read_number(const std::string& text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

std::string encode_address(const Address& address) {
  return join_blobs({address.host(), std::to_string(address.port())});
}

Result<Address> decode_address(const std::string& blob) {
  HVD_TRY(const auto fields, split_blobs(blob));
  std::uint16_t port = 0;
  if (fields.size() != 2 || !read_number(fields[1], port)) return other_version();
  HVD_TRY(const auto addresses, resolve(fields[0], AI_NUMERICHOST));
  return addresses.front().with_port(port);
}

std::string encode_addresses(const std::vector<Address>& addresses) {
  std::vector<std::string> blobs;
  for (const Address& address : addresses) blobs.push_back(encode_address(address));
  return join_blobs(blobs);
}

Result<std::vector<Address>> decode_addresses(const std::string& joined) {
  HVD_TRY(const auto blobs, split_blobs(joined));
  std::vector<Address> addresses;
  for (const auto& blob : blobs) {
    HVD_TRY(auto address, decode_address(blob));
    addresses.push_back(address);
  }
  return addresses;
}

}  // namespace

std::string encode(const Error& error) {
  return std::to_string(error.status) + " " + error.message;
}

Error decode_error(const std::string& blob) {
  Error error;
  const auto [stop, code] = std::from_chars(blob.data(), blob.data() + blob.size(), error.status);
  const auto at = static_cast<std::size_t>(stop - blob.data());
  error.message = at < blob.size() ? blob.substr(at + 1) : "";
  return error;
}

std::string encode(const RankRecord& rank_record) {
  return join_blobs({layout(), encode_rank_info(rank_record.info), rank_record.host,
                     rank_record.host_id, std::to_string(rank_record.pid), rank_record.file,
                     to_hex(rank_record.nonce), transport_name(rank_record.transport),
                     rank_record.encrypted ? "1" : "0", rank_record.secret,
                     encode(rank_record.error)});
}

Result<RankRecord> decode_rank_record(const std::string& blob) {
  HVD_TRY(const auto fields, split_blobs(blob));
  if (fields.size() != 11 || fields[0] != layout()) return other_version();
  RankRecord rank_record;
  const auto nonce = from_hex(fields[6]);
  if (!nonce || nonce->size() != sizeof(Nonce) || !read_number(fields[4], rank_record.pid)) {
    return other_version();
  }
  HVD_TRY(rank_record.info, decode_rank_info(fields[1]));
  rank_record.host = fields[2];
  rank_record.host_id = fields[3];
  rank_record.file = fields[5];
  if (rank_record.file.find('/') != std::string::npos) return other_version();
  std::copy(nonce->begin(), nonce->end(), rank_record.nonce.begin());
  if (fields[7] == transport_name(Transport::mpi)) rank_record.transport = Transport::mpi;
  rank_record.encrypted = fields[8] == "1";
  rank_record.secret = fields[9];
  rank_record.error = decode_error(fields[10]);
  return rank_record;
}

std::string encode(const EndpointRecord& endpoint_record) {
  return join_blobs({std::to_string(endpoint_record.leader),
                     encode_addresses(endpoint_record.addresses),
                     encode_addresses(endpoint_record.streams),
                     std::to_string(endpoint_record.first_tag), encode(endpoint_record.error)});
}

Result<EndpointRecord> decode_endpoint_record(const std::string& blob) {
  HVD_TRY(const auto fields, split_blobs(blob));
  EndpointRecord endpoint_record;
  if (fields.size() != 5 || !read_number(fields[0], endpoint_record.leader) ||
      !read_number(fields[3], endpoint_record.first_tag)) {
    return other_version();
  }
  HVD_TRY(endpoint_record.addresses, decode_addresses(fields[1]));
  HVD_TRY(endpoint_record.streams, decode_addresses(fields[2]));
  endpoint_record.error = decode_error(fields[4]);
  return endpoint_record;
}

}  // namespace libhvd
