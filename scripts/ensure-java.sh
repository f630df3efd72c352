#!/bin/sh
# Spark 4 needs Java 17 or newer. On Debian as root it is installed; elsewhere say what to install.
set -eu

java_command() {
    if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then
        echo "$JAVA_HOME/bin/java"
    else
        command -v java || true
    fi
}

java_version() {
    java=$(java_command)
    [ -n "$java" ] || { echo 0; return; }
    # "17.0.15" and also the old "1.8.0_412" form; the part before the first dot decides.
    "$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

found=$(java_version)
if [ "${found:-0}" -ge 17 ]; then
    exit 0
fi
if sh "$(dirname "$0")/may-install.sh" openjdk-17-jre-headless; then
    apt-get update -qq
    apt-get install -y -qq openjdk-17-jre-headless >/dev/null
    found=$(java_version)
    [ "${found:-0}" -ge 17 ] && exit 0
fi
cat >&2 <<'MESSAGE'
statemigrate needs Java 17 or 21 to run Spark, and found none.
  Debian, Ubuntu:  sudo apt-get install openjdk-17-jre-headless
  Fedora, RHEL:    sudo dnf install java-17-openjdk-headless
  macOS:           brew install openjdk@17
  next: install one, or point JAVA_HOME at it, and run make again
MESSAGE
exit 1
