# Known bug in btrfs, seen in Linux 4.16.
# Consequence: cannot be mounted.
# In ACE: mknod foo, rename foo bar, link bar foo / fsync bar, none, fsync bar.

workload btrfs_rename_special_fifo
source B3 reproduced bug 25 (one bug, 3 variants)
source btrfs_rename_fifo.cpp
source xfstests generic/479
expect mountable
setup
mkdir A
mkfifo A/foo
sync
run
creat A/dummy
open A/dummy as @dummy
fsync A/dummy
rename A/foo A/bar
link A/bar A/foo
unlink A/dummy
fsync @dummy; !
