# Log replay test of xfstests (written for btrfs).
# Consequence: create fails with EEXIST.
# After every crash the write checks create a file in each directory: that is the
# creat of bar, so no operation stands for it.

workload xfstests_generic_481
source kdave/xfstests tests/generic/481
expect creating bar after the crash succeeds
creat foo
fsync foo; !
