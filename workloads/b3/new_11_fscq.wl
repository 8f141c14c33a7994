# New bug in FSCQ, found by B3.
# Consequence: fdatasync did not persist data (unverified Haskell-C binding optimisation).
# Not exact: the published sources name the operations but not the offset and length.

workload new_11_fscq
source B3 new bug 11
source README of CrashMonkey, Results
source fix mit-pdos/fscq 97b50ece
expect the appended data are persisted
creat foo
append foo 4K
fdatasync foo; !
