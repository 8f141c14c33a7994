#!/bin/sh
# A name node and its failover controller: name.sh ADDRESS DIR. The controller asks the name node how it is, and
# holds the lock in ZooKeeper for it. It ends by itself when it has lost ZooKeeper for long: whoever watches over
# services starts it again.
here=$(dirname "$(realpath "$0")")
while :; do
    sh "$here/node.sh" "$1" "$2" org.apache.hadoop.hdfs.tools.DFSZKFailoverController
    sleep 1
done &
exec sh "$here/node.sh" "$1" "$2" org.apache.hadoop.hdfs.server.namenode.NameNode
