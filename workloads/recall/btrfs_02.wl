# A regression that was brought back into btrfs of Linux 6.1: renamed file lost from both directories.

workload btrfs_02
source the mechanism of generic_335, generic_321, generic_336, generic_343
expect foo exists, at B/foo only
setup
mkdir A
mkdir B
creat A/foo
syncfs
run
rename A/foo B/foo
fsync A; !
