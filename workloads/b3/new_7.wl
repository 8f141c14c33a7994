# New bug in btrfs, seen in Linux 4.16.0-041600, found by B3.
# Consequence: the hard link is not persisted by fsync of the inode.
# Contested: POSIX does not ask for it. The developers of btrfs, ext4 and XFS accept it as
# what their file systems guarantee.

workload new_7
source B3 new bug 7
source bug-7.cpp
source xfstests generic/520
expect A/bar exists, and foo has 2 links
creat foo
mkdir A
link foo A/bar
fsync foo; !
