#include "control/control_message.hpp"

#include "base/version.hpp"

#include <fmt/format.h>

namespace hvdrun {
namespace {

int version_of(const ControlJson& json) {
  const auto found = json.find("version");
  return found != json.end() && found->is_number_integer() ? found->get<int>() : 0;
}

std::string text_of(const ControlJson& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

std::string json_line(const ControlJson& json) {
  return json.dump(-1, ' ', false, ControlJson::error_handler_t::replace);
}

std::string text_of_bytes(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    if (value >= 0x80) text += static_cast<char>(0xc0 | (value >> 6));
    text += value < 0x80 ? byte : static_cast<char>(0x80 | (value & 0x3f));
  }
  return text;
}

std::string bytes_of_text(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto first = static_cast<unsigned char>(text[i]);
    const bool is_pair = (first & 0xfe) == 0xc2 && i + 1 < text.size();
    if (first < 0x80)
      bytes += text[i];
    else if (is_pair)
      bytes += static_cast<char>((first & 0x03) << 6 | (text[++i] & 0x3f));
    else if ((first & 0xc0) != 0x80)
      bytes += '?';
  }
  return bytes;
}

std::string pack_request(std::string_view word, const ControlJson& arguments) {
  return json_line({{"version", kControlVersion}, {"word", word}, {"arguments", arguments}}) + "\n";
}

std::string pack_answer(std::string_view answer) {
  return fmt::format("{{\"version\":{},\"hvdrun\":\"{}\",\"answer\":{}}}\n", kControlVersion,
                     kVersion, answer);
}

std::string pack_error(const Error& error) {
  return json_line({{"version", kControlVersion},
                    {"hvdrun", kVersion},
                    {"error", error.message},
                    {"exit_code", error.exit_code}}) +
         "\n";
}

Result<ControlRequest> parse_request(std::string_view line) {
  const auto json = ControlJson::parse(line, nullptr, false);
  if (!json.is_object()) return fail("the request is no object of JSON", kExitUsage);
  if (const int version = version_of(json); version != kControlVersion)
    return fail(fmt::format("this job's hvdrun is {} and takes requests of version {}, not {}; "
                            "look into the job with the hvdrun that has started it",
                            kVersion, kControlVersion, version),
                kExitUsage);
  ControlRequest request{text_of(json, "word"), ControlJson::object()};
  if (const auto found = json.find("arguments"); found != json.end()) request.arguments = *found;
  if (request.word.empty() || !request.arguments.is_object())
    return fail("the request has no word, or its arguments are no object", kExitUsage);
  return request;
}

Result<ControlJson> parse_answer(std::string_view line) {
  auto json = ControlJson::parse(line, nullptr, false);
  if (!json.is_object()) return fail("the job's hvdrun sent what is no answer");
  if (const auto error = text_of(json, "error"); !error.empty()) {
    const auto code = json.find("exit_code");
    const bool has_code = code != json.end() && code->is_number_integer();
    return fail(error, has_code ? code->get<int>() : kExitLauncher);
  }
  if (version_of(json) != kControlVersion)
    return fail(fmt::format("the job's hvdrun is {}, this one is {}; look into the job with the "
                            "hvdrun that has started it",
                            text_of(json, "hvdrun"), kVersion),
                kExitUsage);
  const auto answer = json.find("answer");
  if (answer == json.end()) return fail("the job's hvdrun sent an empty answer");
  return std::move(*answer);
}

}  // namespace hvdrun
