# The virtual environment behind ./dev. Sourced by it; uses its root, venv, say and fail.
#
# Rules
#   A call with nothing to do must be quick: it reads the stamp, sums three files, and starts no Python.
#   The stamp is written last. While packages are being installed `motet.installing` lies beside it, so what an
#   interrupted install left behind is thrown away, never trusted.
#   One installer at a time: it holds a lock on `motet.lock`, which the kernel drops when the holder ends, however
#   it ends. That file is the one thing in the directory that is never deleted.
#   Only the locks in requirements/ say what is installed, and every file is checked against its hash.
# shellcheck shell=bash

python_range="3.11 to 3.14"
# Prints the real interpreter, if it has the modules that are named, past symlinks, shims and virtual environments: when an upgrade takes it away the
# environment's link dangles, which is noticed, instead of quietly pointing at another version.
python_probe='
import os, sys
from importlib.util import find_spec
if not (3, 11) <= sys.version_info[:2] <= (3, 14) or not all(map(find_spec, sys.argv[1:])):
    sys.exit(1)
print(os.path.realpath(sys._base_executable))'

# Behind the path: how long a small loop takes, and the version. Builds of one version differ by half: one without
# profile-guided optimisation, or with its core in a shared library, is as slow as a release many years older.
speed_probe="$python_probe"'
from time import perf_counter
class Probe:
    def __init__(self, number): self.number = number
    def next(self): return self.number + 1
def loop():
    began, seen = perf_counter(), {}
    for number in range(20_000):
        seen[number & 255] = Probe(number).next()
    return perf_counter() - began
print(int(min(loop() for _ in range(7)) * 1e6), sys.version_info[1])'

find_python() {
  if [ -n "${MOTET_PYTHON:-}" ]; then
    "$MOTET_PYTHON" -I -c "$python_probe" 2>/dev/null ||
      fail "MOTET_PYTHON=$MOTET_PYTHON is not a Python $python_range" "unset it, or point it at one"
    return
  fi
  # One that cannot make an environment is taken only if there is no other, and is then told so.
  { ! have_uv && pythons_on_path venv ensurepip | best_python; } ||
    pythons_on_path | best_python ||
    fail "found no Python $python_range" \
      "Debian, Ubuntu   sudo apt install python3" \
      "Fedora           sudo dnf install python3" \
      "macOS            brew install python@3.13" \
      "or set MOTET_PYTHON to one that is not on PATH"
}

pythons_on_path() { # those with these modules; two lines each: the path, then its speed and its minor version
  local name candidate
  for name in python3.14 python3.13 python3.12 python3.11 python3 python; do
    # A name that is found proves nothing: it may be a shim for a version that is not selected.
    { type -aP "$name" || true; } | while IFS= read -r candidate; do
      "$candidate" -I -c "$speed_probe" "$@" 2>/dev/null </dev/null || true
    done
  done
}

best_python() { # the newest of those that are not much slower than the quickest
  local path speed minor quickest='' best='' best_minor=0 rows='' tab=$'\t'
  while IFS= read -r path && IFS=' ' read -r speed minor; do
    rows="$rows$speed$tab$minor$tab$path"$'\n'
    if [ -z "$quickest" ] || [ "$speed" -lt "$quickest" ]; then quickest=$speed; fi
  done
  [ -n "$quickest" ] || return 1
  while IFS=$tab read -r speed minor path; do
    [ -n "$path" ] || continue
    if [ "$((speed * 4))" -le "$((quickest * 5))" ] && [ "$minor" -gt "$best_minor" ]; then
      best=$path best_minor=$minor
    fi
  done <<<"$rows"
  printf '%s\n' "$best"
}

dependency_checksum() { # of the locks, and of pyproject.toml up to the settings of the tools
  {
    local line
    while IFS= read -r line; do
      case $line in '[tool.'*) break ;; esac
      printf '%s\n' "$line"
    done <"$root/pyproject.toml"
    cat "$root/requirements/dev.txt" "$root/requirements/spark.txt"
  } | cksum
}

read_stamp() { # sets stamp_*; fails when there is none
  stamp_root='' stamp_venv='' stamp_checksum='' stamp_asked=''
  [ -f "$venv/motet.stamp" ] || return 1
  {
    IFS= read -r stamp_root && IFS= read -r stamp_venv &&
      IFS= read -r stamp_checksum && IFS= read -r stamp_asked
  } <"$venv/motet.stamp"
}

write_stamp() {
  printf '%s\n' "$root" "$venv" "$(dependency_checksum)" "${MOTET_PYTHON:-}" >"$venv/motet.stamp.new"
  mv -f "$venv/motet.stamp.new" "$venv/motet.stamp"
}

environment_is_current() {
  [ ! -e "$venv/motet.installing" ] && [ -x "$venv/bin/python" ] && read_stamp || return 1
  [ "$stamp_root" = "$root" ] && [ "$stamp_venv" = "$venv" ] || return 1
  [ -z "${MOTET_PYTHON:-}" ] || [ "$stamp_asked" = "$MOTET_PYTHON" ] || return 1
  [ "$stamp_checksum" = "$(dependency_checksum)" ]
}

# Packages may be added to what is there unless it is half installed, was moved, has another Python than asked for, or
# is not an environment at all, in which case they would go to the Python behind it.
environment_is_reusable() {
  local base
  [ ! -e "$venv/motet.installing" ] || return 1
  if read_stamp; then
    [ "$stamp_root" = "$root" ] && [ "$stamp_venv" = "$venv" ] || return 1
  fi
  base=$("$venv/bin/python" -I -c "$python_probe" 2>/dev/null) || return 1
  "$venv/bin/python" -I -c 'import sys; sys.exit(sys.prefix == sys.base_prefix)' || return 1
  [ -z "${MOTET_PYTHON:-}" ] || [ "$base" = "$python" ]
}

need_environment() {
  environment_is_current && return
  python=$(find_python) || exit 1
  claim_environment
  # Another ./dev may have done the work while this one waited.
  if ! environment_is_current; then install_environment; fi
  exec 9>&-
}

claim_environment() { # waits for the lock, and holds it until descriptor 9 is closed
  if [ -d "$venv" ] && [ ! -e "$venv/pyvenv.cfg" ] && [ ! -e "$venv/motet.lock" ] && [ -n "$(ls -A "$venv")" ]; then
    fail "$venv is not a virtual environment, so it is left alone" "move it away, or set MOTET_VENV to another directory"
  fi
  mkdir -p "$venv"
  exec 9>>"$venv/motet.lock"
  "$python" -I "$root/tools/hold_lock.py" 9 "another ./dev is installing into $venv; waiting for it"
}

install_environment() {
  say "Installing into $venv with $python: up to 650 MB to download (460 MB of it Spark, 35 MB a Java), 1.2 GB on disk."
  if environment_is_reusable; then
    : >"$venv/motet.installing"
  else
    : >"$venv/motet.installing"
    find "$venv" -mindepth 1 -maxdepth 1 ! -name motet.lock ! -name motet.installing -exec rm -rf {} +
    create_environment
  fi
  rm -f "$venv/motet.stamp"
  install_packages --require-hashes -r "$root/requirements/dev.txt"
  # Spark comes as a source package: what builds it is locked too.
  install_packages --require-hashes -r "$root/requirements/bootstrap.txt"
  show_progress=yes
  install_packages --require-hashes --no-build-isolation -r "$root/requirements/spark.txt"
  show_progress=
  install_packages --no-deps --no-build-isolation -e "$root"
  rm -f "$venv/motet.installing"
  write_stamp
}

have_uv() { uv --version >/dev/null 2>&1; } # it must run: it may be a shim too

create_environment() {
  if have_uv; then
    uv venv --quiet --allow-existing --python "$python" "$venv" >&2
  else
    "$python" -I -m venv --without-pip "$venv" >&2 || no_venv
  fi
}

install_packages() { # the arguments of `pip install`; what it prints goes to stderr, for stdout is the command's
  local quiet=yes
  [ -z "${show_progress:-}" ] || quiet=
  if have_uv; then
    uv pip install ${quiet:+--quiet} --python "$venv/bin/python" "$@" >&2 || give_up_installing
  else
    need_pip
    PIP_USER=no PIP_REQUIRE_VIRTUALENV=yes "$venv/bin/python" -m pip install ${quiet:+-qq} \
      --disable-pip-version-check --no-input "$@" >&2 || give_up_installing
  fi
}

# An installer that ended by itself left things in order (no network, say), so the next call may go on from here.
give_up_installing() {
  rm -f "$venv/motet.installing"
  fail "the packages could not be installed" "the reason is above; the same command tries again"
}

# Debian's python3 comes without ensurepip, which is a package of its own there.
need_pip() {
  # pip knows nothing of uv's settings, but whoever made them meant this.
  if [ -z "${PIP_INDEX_URL:-}" ] && [ -n "${UV_DEFAULT_INDEX:-${UV_INDEX_URL:-}}" ]; then
    export PIP_INDEX_URL="${UV_DEFAULT_INDEX:-$UV_INDEX_URL}"
  fi
  if "$venv/bin/python" -I -c 'import pip' 2>/dev/null; then return; fi
  if "$venv/bin/python" -m ensurepip --default-pip >/dev/null 2>&1; then return; fi
  no_venv
}

no_venv() { # the mark stays: an environment without pip is made anew by the next call, perhaps with another Python
  fail "$python cannot make virtual environments: it has no venv, or no ensurepip" \
    "Debian, Ubuntu   sudo apt install python3-venv (for another version than the default one: python3.13-venv)" \
    "Fedora           sudo dnf install python3" \
    "or install uv, which needs neither" \
    "or set MOTET_PYTHON to a Python that has them"
}

lock_everything() { # further arguments go to uv
  local uv
  if have_uv; then uv=uv; else uv=$venv/bin/uv; fi
  "$uv" --version >/dev/null 2>&1 || fail "lock needs uv" "./dev shell pip install uv, or see the documentation of uv"
  cd "$root" || exit 1
  # Other sources than the default index would put hashes into the locks that nobody else can get.
  unset UV_INDEX UV_EXTRA_INDEX_URL UV_FIND_LINKS
  set -- --quiet --universal --python-version 3.11 --generate-hashes --no-config \
    --no-header --no-annotate --no-emit-index-url --no-emit-find-links "$@"
  printf '%s\n' pip setuptools |
    "$uv" pip compile "$@" -o requirements/bootstrap.txt - >/dev/null
  "$uv" pip compile "$@" --group dev -o requirements/dev.txt pyproject.toml >/dev/null
  "$uv" pip compile "$@" --extra spark --extra sql --extra s3 --constraint requirements/dev.txt \
    -o requirements/spark.txt pyproject.toml >/dev/null
}
