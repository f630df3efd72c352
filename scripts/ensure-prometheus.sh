#!/bin/sh
# The integration tests load the example's alert rules into a Prometheus of their own. On Debian as
# root its package is unpacked into the folder that is named, and not installed, which would start
# a server; elsewhere say what to install.
set -eu

folder=$1
command -v prometheus >/dev/null && command -v promtool >/dev/null && exit 0
[ -x "$folder/usr/bin/promtool" ] && exit 0
if sh "$(dirname "$0")/may-install.sh" prometheus; then
    apt-get update -qq
    download=$(mktemp -d)
    trap 'rm -rf "$download"' EXIT
    (cd "$download" && apt-get download -qq -o APT::Sandbox::User=root prometheus)
    dpkg -x "$download"/prometheus_*.deb "$folder"
    [ -x "$folder/usr/bin/promtool" ] && exit 0
fi
cat >&2 <<'MESSAGE'
The integration tests start a Prometheus of their own, and found none.
  Debian, Ubuntu:  sudo apt-get install prometheus
  macOS:           brew install prometheus
  next: install one, and run make again
MESSAGE
exit 1
