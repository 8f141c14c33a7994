#!/bin/sh
# Makes commits in a Git repository, DIR/repository, and says which of them were made.
#
#     client.sh DIR [FSYNC]
#
# FSYNC is what core.fsync is set to: default, or all, which syncs loose objects too. `initialised` is
# printed when the repository is there, `committed N HASH` when commit N has been made. After the
# second one the repository is packed. It makes three commits, or as many as CRASHPOINT_OPERATIONS
# says if these are fewer.
#
# Exit status: 0 all is done, else that of the command that failed.
set -eu

COMMITS=3
[ "${CRASHPOINT_OPERATIONS:-$COMMITS}" -gt "$COMMITS" ] || COMMITS=${CRASHPOINT_OPERATIONS:-$COMMITS}

directory=$1
fsync=${2:-default}

# The same commits each time, whoever makes them, and nobody's configuration.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=crashpoint GIT_AUTHOR_EMAIL=crashpoint@localhost GIT_AUTHOR_DATE='1700000000 +0000'
export GIT_COMMITTER_NAME=crashpoint GIT_COMMITTER_EMAIL=crashpoint@localhost GIT_COMMITTER_DATE='1700000000 +0000'

git -c core.fsync="$fsync" init --quiet --initial-branch main "$directory/repository"
cd "$directory/repository"
git config core.fsync "$fsync"
git config gc.auto 0
echo initialised

number=1
while [ "$number" -le "$COMMITS" ]; do
    echo "what commit $number says" >"file-$number"
    git add "file-$number"
    git commit --quiet --message "commit $number"
    echo "committed $number $(git rev-parse HEAD)"
    if [ "$number" -eq 2 ]; then
        git gc --quiet
    fi
    number=$((number + 1))
done
