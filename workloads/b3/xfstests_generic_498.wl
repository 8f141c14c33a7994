# Log replay test of xfstests (written for btrfs).
# Consequence: the directory is lost (as in new_3).

workload xfstests_generic_498
source kdave/xfstests tests/generic/498
expect A exists
mkdir A
mkdir B
mkdir A/C
creat B/foo
fsync B/foo
link B/foo A/C/foo
fsync A; !
