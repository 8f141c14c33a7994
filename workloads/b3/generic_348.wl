# Known bug in btrfs, seen in Linux 4.4.
# Consequence: symlink exists but is empty.
# In ACE: symlink foo A/bar / fsync A.

workload generic_348
source B3 reproduced bug 20
source generic_348.cpp
expect readlink A/bar1 is foo1
setup
mkdir A
sync
run
symlink foo1 A/bar1
fsync A; !

# The directory is as new as the link, which the program tries next.
workload generic_348.new_directory
source B3 reproduced bug 20
expect readlink B/bar2 is foo2
mkdir B
symlink foo2 B/bar2
fsync B; !
