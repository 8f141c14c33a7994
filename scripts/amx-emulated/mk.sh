#!/bin/sh
# mk.sh NAME: an ISO with the kernel and the initramfs in rootfs/, and a bochsrc.
set -e
cd /tmp/h1-kern; n=$1; d=/tmp/h1-run/$n; mkdir -p $d iso/isolinux
cp root/usr/lib/ISOLINUX/isolinux.bin root/usr/lib/syslinux/modules/bios/ldlinux.c32 iso/isolinux/
cp vmlinuz-6.1.0-56-cloud-amd64 iso/isolinux/vmlinuz
(cd rootfs; find . | /tmp/h1-kern/rootfs/bin/busybox cpio -o -H newc 2>/dev/null) > iso/isolinux/initrd
cat > iso/isolinux/isolinux.cfg <<C
default l
prompt 0
timeout 1
label l
 kernel vmlinuz
 initrd initrd
 append console=ttyS0 mitigations=off clearcpuid=580 nokaslr no5lvl random.trust_cpu=on audit=0 selinux=0 apparmor=0 $APPEND
C
root/usr/bin/genisoimage -quiet -o $d/boot.iso -b isolinux/isolinux.bin -c isolinux/boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table -J -R iso
cat > $d/bochsrc <<C
display_library: nogui
cpu: model=sapphire_rapids, count=1, ips=200000000, reset_on_triple_fault=0, ignore_bad_msrs=1
memory: guest=1536, host=1536
romimage: file=/tmp/h1-bochs/root/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/tmp/h1-bochs/root/usr/share/bochs/VGABIOS-lgpl-latest
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path=$d/boot.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$d/console
clock: sync=none, time0=1700000000
log: $d/bochs.log
panic: action=report
error: action=report
info: action=ignore
debug: action=ignore
C
