#include "resources/hostfile.hpp"

#include "base/files.hpp"
#include "common/text.hpp"
#include "slurm/host_list.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

bool is_loopback(std::string_view host) {
  const bool is_127 =
      host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "localhost" || host == "::1" || is_127;
}

bool is_address(std::string_view host) {
  return host.find(':') != std::string_view::npos ||
         host.find_first_not_of("0123456789.") == std::string_view::npos;
}

std::string_view first_label(std::string_view host) {
  return is_address(host) ? host : host.substr(0, host.find('.'));
}

bool is_short(std::string_view host) {
  return first_label(host) == host;
}

constexpr auto npos = std::string_view::npos;

// 65536 hosts with long names; a bound against reading a data file, or /dev/zero.
constexpr std::size_t kLargestFile = 32 << 20;

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

// The words of a line. "slots = 4", which Open MPI reads, is one word with its blanks taken out.
std::vector<std::string> split_words(std::string_view line) {
  std::vector<std::string> words;
  bool goes_on = false;  // the next text belongs to the last word
  for (std::size_t i = 0; i < line.size();) {
    if (is_blank(line[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < line.size() && !is_blank(line[end])) ++end;
    const auto text = line.substr(i, end - i);
    if (!words.empty() && (goes_on || text.front() == '='))
      words.back() += text;
    else
      words.emplace_back(text);
    goes_on = text.back() == '=';
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

// Sets a field that may stand there once.
template <class T>
Result<void> set_once(std::optional<T>& field, T value, std::string_view word) {
  if (field) return usage_error(fmt::format("{} says for the second time what it is", quote(word)));
  field = std::move(value);
  return {};
}

// What stands behind the host.
struct Line {
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
  Line line;
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

// Bytes that no text has.
bool is_binary(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) {
    return c < 0x20 && c != '\n' && !is_blank(static_cast<char>(c));
  });
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return lower;
}

bool names_this_machine(std::string_view host, std::string_view machine_name) {
  const std::string asked = lower_case(host);
  const std::string own = lower_case(machine_name);
  if (is_loopback(asked) || asked == own) return true;
  return !asked.empty() && (is_short(asked) || is_short(own)) &&
         first_label(asked) == first_label(own);
}

HostNames::HostNames(const std::vector<std::string>& names)
    : names_(names), used_(names.size(), false) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string name = lower_case(names[i]);
    by_name_[name].push_back(i);
    if (is_loopback(name)) by_name_["localhost"].push_back(i);
    (is_short(name) ? short_ : by_label_)[std::string(first_label(name))].push_back(i);
  }
}

bool HostNames::mark(const std::unordered_map<std::string, std::vector<std::size_t>>& index,
                     const std::string& key) {
  const auto found = index.find(key);
  if (found == index.end()) return false;
  for (const auto i : found->second) used_[i] = true;
  return true;
}

bool HostNames::find(std::string_view name) {
  const std::string lower = lower_case(name);
  const std::string label(first_label(lower));
  bool found = mark(by_name_, lower);
  found = mark(short_, label) || found;
  if (is_short(lower)) found = mark(by_label_, label) || found;
  return found;
}

bool HostNames::contains(const Host& host) {
  bool found = find(host.name);
  if (host.address != host.name) found = find(host.address) || found;
  if (host.is_this_machine) found = find("localhost") || found;
  return found;
}

std::vector<std::string> HostNames::unused() const {
  std::vector<std::string> unused;
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (!used_[i]) unused.push_back(names_[i]);
  return unused;
}

Result<std::vector<HostRequest>> parse_hostfile(std::string_view text, const std::string& name) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (is_binary(text))
    return usage_error(name + ": this is no hostfile: it holds bytes that no text has");

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
