# Log replay test of xfstests (written for btrfs).
# Consequence: foo data lost.

workload xfstests_generic_073
source kdave/xfstests tests/generic/073
expect foo has 16384 bytes
expect D2/bar exists
creat foo
write foo 0 8K
mkdir D1
creat D1/bar
mkdir D2
sync
write foo 8K 8K
rename D1/bar D2/bar
fsync D1
fsync foo; !
