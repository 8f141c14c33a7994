#!/bin/sh
# A node of RabbitMQ: node.sh NAME ADDRESS DIRECTORY. Its configuration is there.
set -eu
root=$(realpath "$(dirname "$(realpath "$0")")/../../../target/neat/rabbitmq/root")
umask 077
mkdir -p "$3/log"
printf crashpoint >"$3/.erlang.cookie"
echo '[].' >"$3/plugins"
echo '[{kernel,[{net_ticktime,4}]}].' >"$3/advanced.config"
export HOME="$3" PATH="$root/usr/lib/erlang/bin:$PATH" ERL_EPMD_ADDRESS="$2" RABBITMQ_NODENAME="rabbit@$1" \
    RABBITMQ_MNESIA_BASE="$3/mnesia" RABBITMQ_LOG_BASE="$3/log" RABBITMQ_LOGS=- RABBITMQ_PID_FILE="$3/pid" \
    RABBITMQ_CONFIG_FILE="$3/rabbitmq.conf" RABBITMQ_ADVANCED_CONFIG_FILE="$3/advanced.config" \
    RABBITMQ_ENABLED_PLUGINS_FILE="$3/plugins" RABBITMQ_DIST_PORT=25672 \
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+S 1:1 +sbwt none"
exec "$root"/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server
