#include "api/introduction.hpp"

#include "base/hex.hpp"
#include "bootstrap/frame.hpp"
#include "bootstrap/topology.hpp"
#include "transport/bridge_link.hpp"

#include <algorithm>
#include <bit>
#include <charconv>

namespace libhvd {
namespace {

// What must be the same on all hosts for their areas to be the same.
std::string layout() {
  return "3 " + std::to_string(sizeof(Area)) + " " + std::to_string(sizeof(FrameHead)) +
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
  HVD_TRY(const auto addresses, resolve(fields[0]));  // digits: asks no server
  return addresses.front().with_port(port);
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

std::string encode(const Introduction& introduction) {
  return join_blobs({layout(), encode_rank_info(introduction.info), introduction.host,
                     introduction.boot, std::to_string(introduction.pid), introduction.file,
                     to_hex(introduction.nonce), introduction.secret,
                     encode(introduction.trouble)});
}

Result<Introduction> decode_introduction(const std::string& blob) {
  HVD_TRY(const auto fields, split_blobs(blob));
  if (fields.size() != 9 || fields[0] != layout()) return other_version();
  Introduction introduction;
  const auto nonce = from_hex(fields[6]);
  if (!nonce || nonce->size() != sizeof(Nonce) || !read_number(fields[4], introduction.pid)) {
    return other_version();
  }
  HVD_TRY(introduction.info, decode_rank_info(fields[1]));
  introduction.host = fields[2];
  introduction.boot = fields[3];
  introduction.file = fields[5];
  std::copy(nonce->begin(), nonce->end(), introduction.nonce.begin());
  introduction.secret = fields[7];
  introduction.trouble = decode_error(fields[8]);
  return introduction;
}

std::string encode(const Claim& claim) {
  std::vector<std::string> addresses;
  for (const Address& address : claim.addresses) addresses.push_back(encode_address(address));
  return join_blobs({std::to_string(claim.leader), join_blobs(addresses), encode(claim.trouble)});
}

Result<Claim> decode_claim(const std::string& blob) {
  HVD_TRY(const auto fields, split_blobs(blob));
  Claim claim;
  if (fields.size() != 3 || !read_number(fields[0], claim.leader)) return other_version();
  HVD_TRY(const auto addresses, split_blobs(fields[1]));
  for (const auto& text : addresses) {
    HVD_TRY(auto address, decode_address(text));
    claim.addresses.push_back(address);
  }
  claim.trouble = decode_error(fields[2]);
  return claim;
}

}  // namespace libhvd
