# Log replay test of xfstests (written for btrfs).
# Consequence: wrong link count, undeletable entries.

workload xfstests_generic_040
source kdave/xfstests tests/generic/040
expect foo has 3002 links
expect all of them can be removed
creat foo
repeat i 1..3000 link foo foo_link_{i}
sync
link foo foo_link_3001
fsync foo; !
