#include "resources/hostfile.hpp"

#include "base/files.hpp"
#include "base/host_list.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr auto npos = std::string_view::npos;

// Bytes: room for 65536 hosts with long names. Keeps from reading a data file or /dev/zero.
constexpr std::size_t kLargestFile = 32 << 20;

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

// Returns the words of a line. "slots = 4", which Open MPI accepts, is one word without its blanks.
std::vector<std::string> split_words(std::string_view line) {
  std::vector<std::string> words;
  bool is_open = false;  // the next text belongs to the last word
  for (std::size_t i = 0; i < line.size();) {
    if (is_blank(line[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < line.size() && !is_blank(line[end])) ++end;
    const auto text = line.substr(i, end - i);
    if (!words.empty() && (is_open || text.front() == '='))
      words.back() += text;
    else
      words.emplace_back(text);
    is_open = text.back() == '=';
    i = end;
  }
  return words;
}

Result<int> read_number(std::string_view key, std::string_view value, int most) {
  int number = 0;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  const bool is_number = stop == end && !value.empty();
  if (is_number && error == std::errc() && number == 0 && key == "slots")
    return usage_error("a host needs 1 slot or more; to leave it out, put a # before it");
  if (!is_number || error != std::errc() || number < 1 || number > most)
    return usage_error(
        fmt::format("{}= needs a whole number from 1 to {}, not {}", key, most, quote(value)));
  return number;
}

// Sets a field that a line may set once.
template <class T>
Result<void> set_once(std::optional<T>& field, T value, std::string_view word) {
  if (field) return usage_error(fmt::format("{} sets the same field a second time", quote(word)));
  field = std::move(value);
  return {};
}

// The options of a line after the host.
struct LineOptions {
  std::optional<int> slots;
  std::optional<int> max_slots;
  std::optional<int> port;
  std::optional<std::string> user;

  Result<void> take(std::string_view word) {
    constexpr int kMostSlots = 1'000'000'000;
    constexpr int kMostPorts = 65535;
    const auto equals = word.find('=');
    const auto key = word.substr(0, equals);
    const auto value = equals == npos ? std::string_view() : word.substr(equals + 1);
    const auto number = [&](std::optional<int>& field, std::string_view name,
                            int most) -> Result<void> {
      HVD_TRY(const int read, read_number(name, value, most));
      return set_once(field, read, word);
    };
    if (key == "slots") return number(slots, "slots", kMostSlots);
    if (key == "max_slots" || key == "max-slots") return number(max_slots, key, kMostSlots);
    if (key == "port") return number(port, "port", kMostPorts);
    if (key == "user" || key == "username") {
      if (!is_host_name(value)) return usage_error(fmt::format("{} names no user", quote(word)));
      return set_once(user, std::string(value), word);
    }
    return usage_error(
        fmt::format("{} is not known here; a line is: host, and then slots=N, port=N, "
                    "user=NAME or max_slots=N where needed",
                    quote(word)));
  }
};

Result<std::vector<HostRequest>> read_line(const std::vector<std::string>& words,
                                           const std::string& source) {
  HVD_TRY(auto requests, parse_host_request(words.front(), source));
  LineOptions line;
  line.slots = requests.front().slots;
  if (const auto& user = requests.front().user; !user.empty()) line.user = user;
  for (std::size_t i = 1; i < words.size(); ++i) HVD_CHECK(line.take(words[i]));
  if (line.max_slots && line.slots && *line.max_slots < *line.slots)
    return usage_error(
        fmt::format("max_slots={} is less than the {} slots", *line.max_slots, *line.slots));
  for (auto& request : requests) {
    request.slots = line.slots;
    request.max_slots = line.max_slots;
    request.port = line.port;
    request.user = line.user.value_or("");
  }
  return requests;
}

// Returns whether the text has bytes that no text file has.
bool is_binary(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) {
    return c < 0x20 && c != '\n' && !is_blank(static_cast<char>(c));
  });
}

}  // namespace

Result<std::vector<HostRequest>> parse_hostfile(std::string_view text, const std::string& name) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (is_binary(text)) return usage_error(name + ": this is not a hostfile: it holds binary data");

  std::vector<HostRequest> all;
  for (int number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto words = split_words(text.substr(0, std::min(end, text.find('#'))));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.empty()) continue;
    const auto source = fmt::format("{}:{}", name, number);
    auto requests = read_line(words, source);
    if (!requests) return usage_error(source + ": " + requests.error().message);
    if (requests->size() > kMaxHosts - all.size())
      return usage_error(fmt::format("{}: this is beyond {} hosts, the most that hvdrun takes",
                                     source, kMaxHosts));
    std::move(requests->begin(), requests->end(), std::back_inserter(all));
  }
  if (all.empty())
    return usage_error(name + ": there is no host in it; put one on each line: n1 slots=4");
  return all;
}

Result<std::vector<HostRequest>> read_hostfile(const std::filesystem::path& file) {
  HVD_TRY(
      const std::string text,
      read_file(file, kLargestFile, "--hostfile: cannot read " + quote_if_needed(file.string())));
  return parse_hostfile(text, quote_if_needed(file.string()));
}

}  // namespace hvdrun
