# Found by Crashpoint, 2026-11-20, on btrfs of Linux 6.1.176; 6.18.44 has it mended.
# Consequence: a symlink that was moved into a new directory is back at its old name, although the
# old directory was fsynced. With a file in its place that does not happen.

workload btrfs_symlink_moved_back
source crashpoint, a seq-2 around names on Linux 6.1
expect A/bar is the symlink and bar is gone
symlink A/foo bar
fsync .
mkdir A
rename bar A/bar
fsync .; !
