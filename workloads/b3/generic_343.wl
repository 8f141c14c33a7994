# Known bug in btrfs, seen in Linux 4.4.
# Consequence: directory and file are in both parents.

workload generic_343
source B3 reproduced bug 19
source generic_343.cpp
expect Z and foo2 are only in X
setup
mkdir X
mkdir Y
creat X/foo
mkdir Y/Z
creat Y/foo2
sync
run
link X/foo X/bar
rename Y/Z X/Z
rename Y/foo2 X/foo2
fsync X/foo; !
