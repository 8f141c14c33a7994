#!/bin/sh
# A server of HDFS, or ZooKeeper: node.sh ADDRESS DIR CLASS [ARGUMENT]...
here=$(dirname "$(realpath "$0")")
hdfs=$here/../../../target/neat/hdfs-ha
address=$1 dir=$2
shift 2
exec "$hdfs/../jdk/home/bin/java" -Xmx128m -Xss512k -XX:-UsePerfData -XX:TieredStopAtLevel=1 -XX:+UseSerialGC \
    -Djava.net.preferIPv4Stack=true -Dnode.ip="$address" -Dnode.dir="$dir" \
    -cp "$here/conf:$hdfs/pages:$hdfs/jars/*" "$@"
