# Log replay test of xfstests (written for btrfs).
# Consequence: preallocated blocks are lost.
# The program opens bar anew for each of the 500 writes.

workload xfstests_generic_483
source kdave/xfstests tests/generic/483
expect the preallocated blocks beyond the end of each file are kept
expect foo, bar and baz have 256K each
creat foo
write foo 0 256K
creat bar
repeat i 0..499 write bar {i}*4K 4K sync
creat baz
write baz 0 256K
falloc baz keep_size 256K 768K
fsync baz
sync
falloc foo keep_size 256K 1M
fsync foo
truncate bar 256K
falloc bar keep_size 256K 1M
fsync bar
falloc baz keep_size 1M 2M
fsync baz; !
