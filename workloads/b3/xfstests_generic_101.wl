# Log replay test of xfstests (written for btrfs).
# Consequence: stale bytes.

workload xfstests_generic_101
source kdave/xfstests tests/generic/101
expect foo[64K,125K) and bar[0,253K) read as zeros
creat foo
write foo 0 64K
write foo 64K 61K
creat bar
write bar 0 64K
write bar 64K 61K
sync
truncate foo 64K
truncate foo 125K
fsync foo
truncate bar 0
truncate bar 253K
fsync bar; !
