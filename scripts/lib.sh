# shellcheck shell=bash
# What ./quickstart and ./check share. Source it with `top` set to the checkout's folder.

# Debian's own tools, whatever else stands first on the caller's PATH.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
export DEBIAN_FRONTEND=noninteractive
# Files are UTF-8, and what tools say is looked at in English.
export LC_ALL=C.UTF-8
unset LANGUAGE
[ -w "${TMPDIR:-/tmp}" ] || unset TMPDIR
# Clones in different folders share the user's ccache.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$top} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-1}

say() { printf '%s\n' "== $*"; }

die() {
  printf '%s\n' "$(basename "$0"): $*" >&2
  exit 1
}

# Where it has no place for its files, ccache compiles nothing.
if [ -z "${CCACHE_DIR:-}" ] && [ -n "${HOME:-}" ] && ! mkdir -p "${XDG_CACHE_HOME:-$HOME/.cache}/ccache" 2>/dev/null; then
  export CCACHE_DIR=$top/.cache/ccache
fi

# CMake puts paths into linker options (-Wl,-rpath,PATH) and lists (A;B) as they are, ccache expands variables in them.
case $top in
  *[\"\\,\;\$]*) die "cannot build in $top: CMake and ccache do not take a path with one of \" \\ , ; \$ in it; move the checkout" ;;
esac

# packages_of GROUP…: the packages of these groups in cmake/packages.txt, one a line.
packages_of() {
  local group
  for group in "$@"; do
    sed -n "s/^$group  *\([^ ]*\)\$/\1/p" "$top/cmake/packages.txt"
  done
}

# missing_of PACKAGE…: those that are not installed, one a line. An installed package may provide it: libdw1t64 is libdw1.
missing_of() {
  local installed package
  installed=$(dpkg-query --show --showformat '${db:Status-Status} ${Package}, ${Provides}\n' |
    sed -n 's/^installed //p' | tr ',' '\n' | sed 's/^ *//; s/ .*//')
  for package in "$@"; do
    grep -qxF "$package" <<<"$installed" || printf '%s\n' "$package"
  done
}

# apt_get ARGUMENT…: waits for another apt or dpkg to finish instead of failing beside it.
apt_get() {
  apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=900 -o Acquire::Retries=3 "$@" </dev/null
}

# The lock of the package lists has no time-out of its own in apt, so it is waited for here.
apt_update() {
  local try words
  for try in $(seq 60); do
    words=$(apt_get update 2>&1) && return
    if ! grep -q "Could not get lock" <<<"$words"; then
      printf '%s\n' "$words" >&2
      return 1
    fi
    say "another program holds apt's lists; waiting (try $try of 60)"
    sleep 10
  done
  return 1
}

# ensure_packages GROUP…: installs what is missing, or says what is and stops.
ensure_packages() {
  local wanted missing
  [ -x /usr/bin/dpkg-query ] ||
    die "this script knows the packages of Debian 12 and 13 only; on another system install what cmake/packages.txt lists and use cmake --preset release"
  mapfile -t wanted < <(packages_of "$@")
  mapfile -t missing < <(missing_of "${wanted[@]}")
  [ "${#missing[@]}" -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    die "these Debian packages are missing: ${missing[*]}
Install them as root, then run this again:
  sudo apt-get install -y ${missing[*]}"
  fi
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  # The lists may be absent or old: then the first try fails, and a fresh list helps.
  apt_get install --no-install-recommends "${missing[@]}" && return
  say "fetching the package lists, then trying again"
  apt_update || die "apt-get update failed; its own words are above"
  apt_get install --no-install-recommends "${missing[@]}" ||
    die "apt-get could not install: ${missing[*]}; its own words are above"
}

# configured FOLDER: it was configured by CMake, for this checkout at this place.
configured() {
  [ -f "$1/build.ninja" ] && grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$top" "$1/CMakeCache.txt"
}
