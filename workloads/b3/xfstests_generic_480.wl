# Log replay test of xfstests (written for btrfs).
# Consequence: cannot be mounted.

workload xfstests_generic_480
source kdave/xfstests tests/generic/480
expect mountable
mkdir D
creat D/foo
link D/foo D/bar
sync
unlink D/bar
creat D/bar
fsync D/bar; !
