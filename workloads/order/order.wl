# What data=ordered and auto_da_alloc of ext4 promise of the order of data and names where nothing is
# made durable: no bytes of a removed file, and no empty file where one was renamed over another.
workload stale; setup; creat junk; write junk 0 8M; sync; unlink junk; sync; run; creat foo; write foo 0 64K; creat bar; fsync bar
workload replace; setup; creat foo; write foo 0 4K; run; creat tmp; write tmp 0 8K; rename tmp foo; creat bar; fsync bar
workload append; setup; creat junk; write junk 0 8M; creat foo; write foo 0 4K; sync; unlink junk; sync; run; append foo 64K; creat bar; fsync bar
