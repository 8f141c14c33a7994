# The same commits each time, whoever makes them, and nobody's configuration.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=crashpoint GIT_AUTHOR_EMAIL=crashpoint@localhost GIT_AUTHOR_DATE='1700000000 +0000'
export GIT_COMMITTER_NAME=crashpoint GIT_COMMITTER_EMAIL=crashpoint@localhost GIT_COMMITTER_DATE='1700000000 +0000'
