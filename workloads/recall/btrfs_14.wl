# A regression that was brought back into btrfs of Linux 6.1: UNMOUNTABLE.

workload btrfs_14
source the mechanism of btrfs_link_unlink, xfstests_generic_480
expect mountable
setup
mkdir A
creat A/foo
link A/foo A/bar
syncfs
run
unlink A/bar
creat A/bar
fsync A/bar; !
