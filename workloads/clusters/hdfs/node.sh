#!/bin/sh
# A server of HDFS: node.sh ADDRESS DIR CLASS [ARGUMENT]... The class is below org.apache.hadoop.hdfs.server.
here=$(dirname "$(realpath "$0")")
hdfs=$here/../../../target/neat/hdfs
address=$1 dir=$2 class=$3
shift 3
exec "$hdfs/../jdk/home/bin/java" -Xmx128m -XX:-UsePerfData -XX:TieredStopAtLevel=1 -XX:+UseSerialGC \
    -Djava.net.preferIPv4Stack=true -Dnode.ip="$address" -Dnode.dir="$dir" \
    -cp "$here/conf:$hdfs/jars/*" "org.apache.hadoop.hdfs.server.$class" "$@"
