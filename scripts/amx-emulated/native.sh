cd /tmp/h1-kern/rootfs; mount -t proc p proc; mkdir -p dev; mount --rbind /dev dev; mount -t tmpfs t dev/shm -o mode=1777
exec chroot . /bin/sh -c 'export PATH=/sbin:/bin:/usr/sbin:/usr/bin HOME=/root; say() { echo "=== $(cut -d" " -f1 /proc/uptime) $*"; }; . /steps'
