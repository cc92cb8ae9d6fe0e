# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What ./run, ./test and .ci/run share: finding and installing Debian packages, configuring and
# building. Sourced with the repository's root in `root`; it changes nothing by itself.

: "${root:?set root to the repository before sourcing tools/setup.sh}"
build_dir=$root/build/release

# Where ccache is installed, two checkouts of the same sources share what they compiled.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

say() { printf 'weir: %s\n' "$*" >&2; }

# packages_of GROUP… : the packages of tools/packages.txt in these groups, one a line.
packages_of() {
  local group
  for group in "$@"; do
    awk -v group="$group" '$1 == group { print $2 }' "$root/tools/packages.txt"
  done
}

# missing_packages GROUP… : those of them that dpkg does not know as installed.
missing_packages() {
  local wanted
  mapfile -t wanted < <(packages_of "$@")
  comm -23 <(printf '%s\n' "${wanted[@]}" | sort -u) \
    <(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null |
      awk '$1 == "installed" { print $2 }' | sort -u)
}

# install PACKAGE… : as root from Debian; as an ordinary user it says what is missing and ends
# with 2, because nothing that follows could work.
install() {
  if [ "$(id -u)" -ne 0 ]; then
    say "these Debian packages are missing: $*"
    say "install them as root: apt-get install --no-install-recommends $*"
    exit 2
  fi
  say "installing Debian packages: $*"
  local apt=(apt-get -q -y -o Dpkg::Use-Pty=0)
  export DEBIAN_FRONTEND=noninteractive
  "${apt[@]}" update >&2 </dev/null
  "${apt[@]}" install --no-install-recommends "$@" >&2 </dev/null
}

# ensure_packages GROUP… : nothing to do and silent when all are there.
ensure_packages() {
  if ! command -v dpkg-query >/dev/null 2>&1; then
    say "this is not a Debian system; weir needs what tools/packages.txt lists ($*)"
    return
  fi
  local missing
  mapfile -t missing < <(missing_packages "$@")
  if [ "${#missing[@]}" -gt 0 ]; then install "${missing[@]}"; fi
}

# ensure_npm : Debian's npm conflicts with a Node from elsewhere, so it is wanted only where there
# is no npm at all.
ensure_npm() {
  if ! command -v npm >/dev/null 2>&1; then install npm; fi
}

# configure TESTS : configures the release tree unless it stands already as wanted. Ninja itself
# runs CMake again when a CMakeLists.txt changes; a folder that is new is what it cannot see, so the
# list of those files is compared as well.
configure() {
  local tests=$1 folders=$build_dir/folders.txt now
  now=$(cd "$root" && find . \( -path ./build -o -name node_modules -o -name .git \) -prune \
    -o -name CMakeLists.txt -print | sort)
  if [ -f "$build_dir/build.ninja" ] && [ "$(cat "$folders" 2>/dev/null)" = "$now" ]; then
    if [ "$tests" = OFF ] || grep -q '^WEIR_TESTS:[A-Z]*=ON$' "$build_dir/CMakeCache.txt"; then
      return
    fi
  fi
  say "configuring $build_dir"
  (cd "$root" && cmake --preset release -DWEIR_TESTS="$tests" >&2 </dev/null)
  printf '%s\n' "$now" >"$folders"
}

# build TARGET… : builds what has changed; silent when nothing has.
build() {
  if ninja -C "$build_dir" -n "$@" 2>/dev/null | grep -qF 'no work to do'; then
    return
  fi
  say "building $* (the first time takes some minutes)"
  ninja -C "$build_dir" -j "${WEIR_JOBS:-$(nproc)}" "$@" >&2 </dev/null
}
