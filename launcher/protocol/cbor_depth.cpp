#include "protocol/cbor_depth.hpp"

#include <cstddef>
#include <string>

#include <nlohmann/json.hpp>

namespace hvdrun {
namespace {

using Json = nlohmann::json;

// Refuses CBOR with too many levels.
class DepthLimit final : public nlohmann::json_sax<Json> {
 public:
  bool start_object(std::size_t) override { return ++depth_ <= kMostLevels; }
  bool start_array(std::size_t) override { return ++depth_ <= kMostLevels; }
  bool end_object() override { return --depth_ >= 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return false;
  }
  bool exceeded() const { return depth_ > kMostLevels; }

 private:
  static constexpr int kMostLevels = 32;
  int depth_ = 0;
};

}  // namespace

bool is_nested_too_deeply(std::string_view cbor) {
  DepthLimit limit;
  Json::sax_parse(cbor.begin(), cbor.end(), &limit, Json::input_format_t::cbor);
  return limit.exceeded();
}

}  // namespace hvdrun
