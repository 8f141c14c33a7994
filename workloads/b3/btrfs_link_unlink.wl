# Known bug in btrfs, seen in Linux 4.16.
# Consequence: cannot be mounted.
# In ACE: link foo bar, unlink bar, creat bar / sync, none, fsync bar (found at seq-2).

workload btrfs_link_unlink
source B3 reproduced bug 24
source btrfs_link_unlink.cpp
source xfstests generic/480
expect mountable
setup
mkdir A
creat A/foo
link A/foo A/bar
sync
run
unlink A/bar
creat A/bar
fsync A/bar; !
