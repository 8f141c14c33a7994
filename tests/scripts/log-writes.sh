#!/bin/sh
# Runs a workload on a file system under the kernel's dm-log-writes, in a guest:
#   log-writes.sh CRASHPOINT FS FILE.wl DIR
# In DIR, which the host shares, it leaves base.img, the disk before the run, and log.img, what was
# logged. The modules dm-mod and dm-log-writes are loaded.
set -eu

PATH=$PATH:/usr/sbin:/sbin
crashpoint=$1
fs=$2
workload=$3
share=$4

case $fs in
    ext4) size=16 make='mkfs.ext4 -q -F -b 4096 -N 512 -E lazy_itable_init=0' ;;
    xfs) size=300 make='mkfs.xfs -q -f' ;;
    btrfs) size=110 make='mkfs.btrfs -q -f' ;;
esac

work=$(mktemp -d)
truncate -s ${size}M "$work/disk"
truncate -s 64M "$work/log"
# shellcheck disable=SC2086 # a program and its arguments
$make "$work/disk"
cp --sparse=always "$work/disk" "$share/base.img"

disk=$(losetup --find --show "$work/disk")
log=$(losetup --find --show "$work/log")
# Nobody runs udev here: dmsetup makes the node itself.
dmsetup create --noudevsync --noudevrules logged --table "0 $(blockdev --getsz "$disk") log-writes $disk $log"
dmsetup mknodes logged
mkdir "$work/mnt"
mount -t "$fs" -o noatime /dev/mapper/logged "$work/mnt"
"$crashpoint" run --on "$work/mnt" --mark logged "$workload"
umount "$work/mnt"
dmsetup message logged 0 mark unmounted
dmsetup remove --noudevsync logged
losetup -d "$disk" "$log"
cp --sparse=always "$work/log" "$share/log.img"
