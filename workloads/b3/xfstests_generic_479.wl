# Log replay test of xfstests (written for btrfs).
# Consequence: log replay fails.

workload xfstests_generic_479.fifo
source kdave/xfstests tests/generic/479
expect mountable
mkdir D
mkfifo D/foo
sync
creat D/f1
fsync D/f1
rename D/foo D/bar
link D/bar D/foo
creat f2
fsync f2; !

workload xfstests_generic_479.dev
source kdave/xfstests tests/generic/479
expect mountable
mkdir D
mknod D/foo
sync
creat D/f1
fsync D/f1
rename D/foo D/bar
link D/bar D/foo
creat f2
fsync f2; !

workload xfstests_generic_479.symlink
source kdave/xfstests tests/generic/479
expect mountable
mkdir D
symlink xxx D/foo
sync
creat D/f1
fsync D/f1
rename D/foo D/bar
link D/bar D/foo
creat f2
fsync f2; !
