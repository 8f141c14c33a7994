# Known bug in btrfs, seen in Linux 3.13.
# Consequence: deleted xattr re-appears.
# In ACE: fsetxattr foo, removexattr foo / sync, fsync foo.

workload generic_066
source B3 reproduced bug 6
source generic_066.cpp
expect only user.xattr1 and user.xattr3 exist
setup
creat foo
setxattr foo user.xattr1 val1
setxattr foo user.xattr2 val2
setxattr foo user.xattr3 val3
sync
run
removexattr foo user.xattr2
fsync foo; !
