#include "channels/sent_agent.hpp"

#include "base/files.hpp"
#include "base/version.hpp"
#include "common/sha256.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/utsname.h>

namespace hvdrun {
namespace {

constexpr std::size_t kLargestFile = 256u << 20;
constexpr std::size_t kDigitsOfKey = 16;

// Finds the folder $d. The user's shell passes these scripts to /bin/sh, and may be csh or fish, so
// they have no single quote, backslash or exclamation mark.
constexpr std::string_view kFindFolder = R"sh(
LC_ALL=C; export LC_ALL;
k=$1 c=$2;
case $c in /*) ;; *) c=${XDG_CACHE_HOME:-} ;; esac;
case $c in /*) ;; *) c=${HOME:-}/.cache ;; esac;
d=$c/hvdrun/$k;
)sh";

// trusted: sets $w to the first folder that others can change; fails if there is one. Takes $d and
// the folders above it up to the home folder, as sshd's StrictModes does.
// good FILE: whether it is whole.
constexpr std::string_view kCheck = R"sh(
trusted() {
  w=$d; [ -O "$d" ] || return 1;
  u=$(id -u) && x=$(cd -P "$d" && pwd) && y=$(cd -P "${HOME:-/}" && pwd) || return 1;
  set --;
  until [ -z "$x" ]; do
    set -- "$@" "$x"; [ "$x" = "$y" ] && break; x=${x%/*};
  done;
  w=$(ls -ldn "$@" | while read -r a b o e; do
    case $a in ?????????[tT]*) a=sticky ;; esac;
    case $a in ?????w*|????????w*) o=x ;; esac;
    case $o in 0|"$u") ;; *) echo "/${e#*/}"; break ;; esac;
  done);
  [ -z "$w" ];
};
good() {
  [ -f "$1" ] && [ -O "$1" ] && [ -x "$1" ] || return 1;
  sum=$(sha256sum <"$1" 2>/dev/null || shasum -a 256 <"$1");
  [ "${sum%% *}" = "${1##*agent.}" ];
};
)sh";

// The time of the file "used" is that of the last start.
constexpr std::string_view kStart = R"sh(
p=$3; shift 3;
for f in "$d"/agent.*; do
  [ -f "$f" ] && trusted && good "$f" || continue;
  { echo >"$d/used"; } 2>/dev/null;
  exec "$f" "$@";
done;
[ -x "$p" ] && exec "$p" "$@";
exit 127
)sh";

// It reads stdin to the end, whatever happens. If a task ends before, srun may lose its last line,
// or abort the step ("Connection reset by peer"), which ends the tasks of all other hosts. When a
// version has arrived, those in which nothing has changed for 90 days are removed.
constexpr std::string_view kReceive = R"sh(
m=$3 v=$4 n=$5 h=$6;
give_up() { cat >/dev/null; echo "$1" >&2; exit 1; };
other="set XDG_CACHE_HOME to another folder, or install hvdrun $v there";
[ "$(uname -m)" = "$m" ] ||
  give_up "it has another kind of processor ($(uname -m)) than the launcher ($m); install hvdrun $v there and name it with --agent-path";
umask 077;
e=$(mkdir -p "$d" 2>&1) || give_up "hvdrun cannot be sent to $d there: ${e##*: }; $other";
[ -O "$d" ] ||
  give_up "hvdrun cannot be sent to $d there: the folder belongs to another user; remove it, or $other";
chmod 700 "$d";
trusted ||
  give_up "hvdrun cannot be sent to $d there: others can change $w; chmod go-w it, or $other";
good "$d/agent.$h" && { cat >/dev/null; exit 0; };
t=$d/new.$$.$(uname -n);
drop() { rm -f "$t"; };
trap drop 0; trap "exit 1" 1 2 13 15;
find "$d" -name "new.*" -mtime +0 -exec rm -f {} + 2>/dev/null;
e=$({ head -c "$n" >"$t"; } 2>&1) ||
  give_up "hvdrun cannot be sent to $d there: ${e##*: }; $other";
chmod 700 "$t";
[ -x "$t" ] ||
  give_up "hvdrun cannot be sent to $d there: its file system does not execute programs (noexec); $other";
sum=$(sha256sum <"$t" 2>/dev/null || shasum -a 256 <"$t");
[ "${sum%% *}" = "$h" ] || give_up "hvdrun cannot be sent to $d there: it did not arrive whole";
mv -f "$t" "$d/agent.$h" || exit 1;
for o in "${d%/*}"/[0-9]*-*; do
  [ "$o" = "$d" ] || [ -h "$o" ] || {
    n=$(find "$o" -mtime -90) && [ -z "$n" ] && rm -f "$o"/agent.* "$o"/new.* "$o/used" && rmdir "$o";
  };
done 2>/dev/null;
exit 0
)sh";

// Returns the parts as one line.
std::string script(std::initializer_list<std::string_view> parts) {
  std::string line;
  for (const auto part : parts)
    for (const char c : part) line += c == '\n' ? ' ' : c;
  return line;
}

std::vector<std::string> shell(std::string text, const SentAgent& agent,
                               const std::vector<std::string>& more) {
  std::vector<std::string> words{"/bin/sh", "-c",      std::move(text),
                                 "hvdrun",  agent.key, agent.cache};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Returns the build id in the notes of a segment; empty if there is none. Source: elf(5), Nhdr.
std::span<const std::uint8_t> find_build_id(const std::uint8_t* at, std::size_t size) {
  constexpr char kGnu[] = "GNU";  // the name has a zero byte at its end
  const auto padded = [](std::size_t length) { return (length + 3) & ~std::size_t{3}; };
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof note);
    const auto whole = sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
    if (whole > size) break;
    const auto* const name = at + sizeof note;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof kGnu &&
        std::memcmp(name, kGnu, sizeof kGnu) == 0)
      return {name + padded(note.n_namesz), note.n_descsz};
    at += whole;
    size -= whole;
  }
  return {};
}

// Returns the build id of this program, in hexadecimal digits; "" if it has none.
std::string own_build_id() {
  std::string id;
  ::dl_iterate_phdr(
      [](dl_phdr_info* program, std::size_t, void* result) {
        for (int i = 0; i < program->dlpi_phnum; ++i) {
          const auto& segment = program->dlpi_phdr[i];
          if (segment.p_type != PT_NOTE) continue;
          // NOLINTNEXTLINE: the address of a mapped segment
          const auto* const notes =
              reinterpret_cast<const std::uint8_t*>(program->dlpi_addr + segment.p_vaddr);
          const auto found = find_build_id(notes, segment.p_memsz);
          if (!found.empty()) *static_cast<std::string*>(result) = common::to_hex(found);
        }
        return 1;  // the first object is the program
      },
      &id);
  return id;
}

bool mentions(std::string_view text, std::string_view words) {
  return text.find(words) != std::string_view::npos;
}

// Returns what is between two words of the text; empty if either is missing.
std::string_view between(std::string_view text, std::string_view before, std::string_view after) {
  const auto at = text.find(before);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + before.size());
  return text.substr(0, std::min(text.find(after), text.find('\n')));
}

}  // namespace

std::optional<SentAgent> sent_agent(const Environment& caller) {
  const auto id = own_build_id();
  if (id.size() < kDigitsOfKey) return std::nullopt;
  SentAgent agent;
  agent.key = fmt::format("{}-{}", kVersion, id.substr(0, kDigitsOfKey));
  if (const auto* cache = find_variable(caller, "XDG_CACHE_HOME");
      cache != nullptr && cache->starts_with('/'))
    agent.cache = *cache;
  utsname names{};
  ::uname(&names);
  agent.machine = names.machine;
  return agent;
}

Result<AgentFile> read_agent_file() {
  AgentFile file;
  HVD_TRY(file.content, read_file("/proc/self/exe", kLargestFile, "cannot read hvdrun's own file"));
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(file.content.data());
  file.sha256 = common::to_hex(common::sha256({bytes, file.content.size()}));
  return file;
}

std::vector<std::string> start_command(const SentAgent& agent, const std::string& path,
                                       const std::vector<std::string>& arguments) {
  std::vector<std::string> more{path};
  more.insert(more.end(), arguments.begin(), arguments.end());
  return shell(script({kFindFolder, kCheck, kStart}), agent, more);
}

std::vector<std::string> receive_command(const SentAgent& agent, const AgentFile& file) {
  return shell(script({kFindFolder, kCheck, kReceive}), agent,
               {agent.machine, kVersion, std::to_string(file.content.size()), file.sha256});
}

std::optional<AgentLack> find_lack(int exit_code, std::string_view errors,
                                   const std::string& path) {
  // agent_options() and parse_credentials() print this.
  if (const auto version = between(errors, "hvdrun here is version ", ", the launcher's is ");
      !version.empty())
    return AgentLack{
        fmt::format("hvdrun there is version {}, the launcher's is {}", version, kVersion), true};
  if (mentions(errors, "--internal-agent") && exit_code != kExitNotFound)
    return AgentLack{
        fmt::format("hvdrun there is another version than the launcher's, {}", kVersion), true};
  if (mentions(errors, "error while loading shared libraries"))
    return AgentLack{fmt::format("hvdrun at {} lacks a library", path)};
  if (exit_code == kExitNotFound) return AgentLack{fmt::format("hvdrun not found at {}", path)};
  if (exit_code == kExitNotExecutable)
    return AgentLack{fmt::format("{} cannot be executed there", path)};
  return std::nullopt;
}

}  // namespace hvdrun
