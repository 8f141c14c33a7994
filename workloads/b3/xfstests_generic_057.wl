# Log replay test of xfstests (written for btrfs).
# Consequence: fsynced append lost.

workload xfstests_generic_057
source kdave/xfstests tests/generic/057
expect foo has 12288 bytes
creat foo
write foo 0 8K
sync
write foo 8K 4K
fsync foo
link foo foo_link
creat bar
fsync bar; !
