#!/bin/sh
# A node of MooseFS: node.sh master|chunkserver ADDRESS DIRECTORY MASTER
set -eu
root=$(realpath "$(dirname "$(realpath "$0")")/../../../target/neat/moosefs/root")
mkdir -p "$3/data" "$3/chunks"
case $1 in
    master)
        [ -e "$3/data/metadata.mfs" ] || [ -e "$3/data/metadata.mfs.back" ] || cp "$root/var/lib/mfs/metadata.mfs.empty" "$3/data/metadata.mfs"
        echo '* / rw,alldirs,maproot=0' >"$3/exports.cfg"
        printf '%s\n' "EXPORTS_FILENAME = $3/exports.cfg" "MATOML_LISTEN_HOST = $2" "MATOCS_LISTEN_HOST = $2" \
            "MATOCL_LISTEN_HOST = $2" >"$3/node.cfg" ;;
    chunkserver)
        echo "$3/chunks" >"$3/disks.cfg"
        printf '%s\n' "HDD_CONF_FILENAME = $3/disks.cfg" "MASTER_HOST = $4" "MASTER_RECONNECTION_DELAY = 1" \
            "CSSERV_LISTEN_HOST = $2" "BIND_HOST = $2" >"$3/node.cfg" ;;
esac
printf '%s\n' "WORKING_USER = root" "WORKING_GROUP = root" "DATA_PATH = $3/data" >>"$3/node.cfg"
# -a: after a crash the master takes its metadata from the last image and the log.
case $1 in master) more=-a ;; *) more= ;; esac
exec "$root/usr/sbin/mfs$1" -f -u $more -c "$3/node.cfg" start
