#!/bin/sh
# The integration tests write into a PostgreSQL server of their own. On Debian as root it is
# installed, without the server that the package would start; elsewhere say what to install.
set -eu

server() {
    command -v postgres || ls /usr/lib/postgresql/*/bin/postgres 2>/dev/null || true
}

if [ -n "$(server)" ]; then
    exit 0
fi
if sh "$(dirname "$0")/may-install.sh" postgresql; then
    apt-get update -qq
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -qq postgresql-common >/dev/null
    sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' \
        /etc/postgresql-common/createcluster.conf
    apt-get install -y -qq postgresql >/dev/null
    [ -n "$(server)" ] && exit 0
fi
cat >&2 <<'MESSAGE'
The integration tests start a PostgreSQL server of their own, and found none.
  Debian, Ubuntu:  sudo apt-get install postgresql
  Fedora, RHEL:    sudo dnf install postgresql-server
  macOS:           brew install postgresql
  next: install one, and run make again
MESSAGE
exit 1
