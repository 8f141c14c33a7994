# Found by Crashpoint, 2026-11-20, on f2fs of Linux 6.1.176 with --disk lazy:3: the first fsync after
# a mount sends its flush without waiting for the node that it wrote. f2fs_do_sync_file waits for the
# number that f2fs_add_fsync_node_entry in fs/f2fs/node.c gave that node; the first of a mount is 0,
# which f2fs_wait_on_node_pages_writeback takes for none. A disk that answers at once hides it.
workload f2fs_first_fsync
source "Crashpoint, seq-1/12"
expect "foo exists"
creat foo
fsync foo
!
