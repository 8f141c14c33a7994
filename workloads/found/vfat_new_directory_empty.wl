# Found by Crashpoint, 2026-11-20, on Linux 6.1.176: fsync of a directory that was made since the
# mount writes nothing on vfat. fat_alloc_new_dir in fs/fat/dir.c gives its first block to the list
# of its parent, where mark_buffer_dirty_inode leaves it: fsync of the parent would write it.
workload vfat_new_directory_empty
source "Crashpoint, a sample of seq-2"
expect "A/foo exists"
setup
mkdir A
run
creat A/foo
fsync A/foo
fsync A
!
