# Log replay test of xfstests (written for btrfs).
# Consequence: cannot be mounted.

workload xfstests_generic_502
source kdave/xfstests tests/generic/502
expect mountable
expect foo, bar and qwerty are what they were
mkdir D
creat D/foo
link D/foo D/bar
sync
rename D/foo D/qwerty
rename D/bar D/foo
creat D/bar
fsync D/bar; !
