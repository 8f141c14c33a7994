#!/bin/sh
# Builds a User-Mode Linux kernel with what crashpoint needs, and prints where it is.
#
#   scripts/build-uml.sh [--debian]      from Debian's package linux-source-6.1, or 6.12 where there is no 6.1
#   scripts/build-uml.sh --debian=6.12   from Debian's package linux-source-6.12
#   scripts/build-uml.sh SOURCE_TREE     from a kernel tree, which is left as it is
#
# The kernel goes to ${XDG_CACHE_HOME:-~/.cache}/crashpoint/uml/KEY/linux, where KEY stands for
# the source, scripts/uml/config and the patches: those beside it, or in scripts/uml/6.12 for Linux
# 6.12 and later. What was built once is found again. crashpoint looks for
# ${XDG_CACHE_HOME:-~/.cache}/crashpoint/uml/current, the last from linux-source-6.1, and where there is
# none for uml/6.12, the last from linux-source-6.12. JOBS is the number of compilers (all processors if not given), CC the compiler.
# Only missing programs need root. Exit status: 0 built or found, 3 Debian has no such package here, 2 not
# built for another reason.
set -eu

PATH=$PATH:/usr/sbin:/sbin
# What is read below is in no other language, and in one order.
export LC_ALL=C
# With these the kernel would be built elsewhere, or another way than its key says.
unset KBUILD_OUTPUT KCFLAGS KAFLAGS KCPPFLAGS LLVM LLVM_IAS KCONFIG_CONFIG KCONFIG_ALLCONFIG CROSS_COMPILE MAKEFLAGS
LOG_LINES=20
# The first version of Linux for which scripts/uml/6.12 is meant.
NEWER=6.12
# What the configuration has for older kernels only: 6.12 does this without being told.
GONE='CONFIG_RANDOM_TRUST_CPU=y CONFIG_RANDOM_TRUST_BOOTLOADER=y'
# Each program that the build calls, and the Debian package that has it.
PROGRAMS='gcc:gcc make:make flex:flex bison:bison bc:bc ld:binutils patch:patch perl:perl xz:xz-utils
tar:tar flock:util-linux'

say() { echo "$*" >&2; }
give_up() {
    say "error: $*"
    exit "$not_built"
}
not_built=2

parts=$(cd "$(dirname "$0")/uml" && pwd)
cache=${XDG_CACHE_HOME:-${HOME:?is not set, nor is XDG_CACHE_HOME}/.cache}/crashpoint/uml
jobs=${JOBS:-$(nproc)}
cc=${CC:-gcc}

tree=''
release=6.1
may_be_newer=''
case ${1:---debian} in
    --debian) may_be_newer=yes ;;
    --debian=6.1) ;;
    --debian=6.12) release=6.12 ;;
    --debian=*) give_up "there are patches for Debian's 6.1 and 6.12: give --debian=6.1, --debian=6.12 or a kernel tree" ;;
    -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" && exit 0 ;;
    -*) give_up "unknown option $1: give --debian or a kernel tree" ;;
    *)
        tree=$(cd "$1" 2>/dev/null && pwd -P) || give_up "$1 is not a directory"
        [ -d "$tree/arch/um" ] && [ -f "$tree/Makefile" ] || give_up "$1 is not a kernel tree: it has no arch/um"
        ;;
esac
[ $# -le 1 ] || give_up "too many arguments: give --debian or one kernel tree"
PACKAGE=linux-source-$release
# What the result is called beside its key.
link=$release
other=6.1
[ "$release" != 6.1 ] || { link=current && other=6.12; }

# Runs apt-get as root, if we may.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        return 1
    fi
}
apt() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120 "$@" >&2 </dev/null
}

install_programs() {
    packages=''
    for pair in $PROGRAMS; do
        command -v "${pair%%:*}" >/dev/null 2>&1 || packages="$packages ${pair#*:}"
    done
    [ -e /usr/include/stdio.h ] || packages="$packages libc6-dev"
    [ -n "$packages" ] || return 0
    command -v apt-get >/dev/null 2>&1 || give_up "install these first:$packages"
    say "installing:$packages"
    apt update || true
    # shellcheck disable=SC2086 # a list of words
    apt install --no-install-recommends $packages || give_up "could not install (as root: apt-get install$packages)"
}

# The version of Debian's source package: the one that is installed, else the one to be had.
debian_version() {
    dpkg-query -W -f '${Version}' "$PACKAGE" 2>/dev/null ||
        apt-cache policy "$PACKAGE" 2>/dev/null | sed -n 's/^  Candidate: \([0-9].*\)/\1/p'
}

# What is to be had may be another version by now: begins anew, once.
with_new_lists() {
    [ -z "${LISTS_ARE_NEW-}" ] && apt update || give_up "could not download $PACKAGE $version"
    rm -rf "$1"
    LISTS_ARE_NEW=yes exec "$0" "--debian=$release"
}

# Unpacks Debian's source into $1/source; without the package it is downloaded, which needs no root.
unpack_debian() {
    archive=/usr/src/$PACKAGE.tar.xz
    if [ ! -e "$archive" ]; then
        say "downloading $PACKAGE"
        mkdir "$1/package"
        (cd "$1/package" && apt-get -q download "$PACKAGE=$version" >&2) || with_new_lists "$1"
        dpkg -x "$1/package/"*.deb "$1/package"
        archive=$1/package$archive
    fi
    say "unpacking $PACKAGE $version"
    mkdir "$1/source"
    xz -dc -T0 "$archive" | tar -x -C "$1/source" --strip-components=1 --exclude='*/Documentation/*/*' ||
        give_up "could not unpack $archive"
    rm -rf "$1/package"
}

# Whether the tree is a git checkout, and not merely inside of another.
is_checkout() {
    [ "$(git -C "$tree" rev-parse --show-toplevel 2>/dev/null)" = "$tree" ] &&
        git -C "$tree" rev-parse -q --verify HEAD >/dev/null
}

# What is in a tree, including what was not committed.
tree_version() {
    if is_checkout; then
        git -C "$tree" rev-parse HEAD
        git -C "$tree" diff HEAD
        git -C "$tree" ls-files -o --exclude-standard -z | (cd "$tree" && xargs -0 -r sha256sum)
    else
        # Names, sizes and times of all but what builds make.
        (cd "$tree" && find . \( -name generated -o -name .git -o -name .tmp_versions \) -prune -o -type f \
            ! \( -name '*.[ao]' -o -name '.*.cmd' -o -name '.*.d' -o -name '*.mod' -o -name '*.mod.c' -o -name '*.order' \
            -o -name '.config*' -o -name 'vmlinux*' -o -name 'System.map' -o -path ./linux -o -name '.version' \
            -o -name '*.lds' -o -name '.tmp_*' \) -printf '%p %s %T@\n' | sort)
    fi
}

# Copies the tree into $1/source, without what was built in it.
copy_tree() {
    say "copying $tree"
    mkdir "$1/source"
    if is_checkout; then
        git -C "$tree" ls-files -co --exclude-standard -z |
            (cd "$tree" && tar -c --no-recursion --ignore-failed-read --null -T - 2>/dev/null) | tar -x -C "$1/source"
    else
        (cd "$tree" && tar -c --exclude-vcs --exclude='*.o' --exclude='*.a' --exclude='./vmlinux*' --exclude=./linux .) |
            tar -x -C "$1/source"
        make -s -C "$1/source" ARCH=um mrproper >&2
    fi || give_up "could not copy $tree"
}

# What is lost in a kernel without the patch.
lost_without() {
    case $1 in
        1-*) echo "when crashpoint is killed, processes of the guest may go on for a moment" ;;
        2-*) echo "programs that read the time stamp counter, as Go's do, do not repeat with --virtual-time" ;;
        3-*) echo "--seed has no effect, nothing repeats that uses random numbers" ;;
        4-*) echo "programs that spin on sched_yield hang with --virtual-time" ;;
        5-*) echo "with --virtual-time, nothing repeats if the guest's output is slow to be read" ;;
        6-*) echo "linked statically it does not start on processors with AMX" ;;
        7-*) echo "simulated machines have no --chaos" ;;
        8-*) echo "simulated machines cannot be forked" ;;
        9-*) echo "simulated machines take half as much again of processor time" ;;
        *) echo "see its first lines" ;;
    esac
}

# Applies the patches to $1; prints the names of those that fit.
patch_source() {
    for file in "$patches"/*.patch; do
        name=$(basename "$file" .patch)
        if patch -d "$1" -p1 -s -f --dry-run <"$file" >/dev/null 2>&1; then
            patch -d "$1" -p1 -s -f --no-backup-if-mismatch <"$file" >&2
            echo "$name"
        elif [ -z "$tree" ]; then
            give_up "$file does not apply to $PACKAGE $version"
        else
            say "warning: $file does not apply to this tree: $(lost_without "$name")"
        fi
    done
}

# Says what of the configuration this kernel did not take.
check_config() {
    while read -r line; do
        case $line in
            CONFIG_*=*)
                case " $gone " in *" $line "*) continue ;; esac
                grep -Fxq "$line" "$1/.config" || say "warning: this kernel has no $line"
                ;;
            '# CONFIG_'*' is not set')
                option=${line#\# }
                if grep -q "^${option%% *}=" "$1/.config"; then
                    say "warning: this kernel does not do without ${option%% *}"
                fi
                ;;
        esac
    done <"$parts/config"
}

# `make` with everything of the day and the machine kept out of the kernel, so that one source,
# one configuration and one compiler give one kernel, with the same random numbers for a seed.
compile() {
    make -C "$1" ARCH=um CC="$cc" KBUILD_BUILD_USER=crashpoint KBUILD_BUILD_HOST=crashpoint KBUILD_BUILD_VERSION=1 \
        KBUILD_BUILD_TIMESTAMP=1970-01-01 LOCALVERSION= "$2" -j"$jobs" >>"$1/../log" 2>&1 && return
    cp "$1/../log" "$cache/log"
    tail -n "$LOG_LINES" "$cache/log" >&2
    give_up "make ARCH=um $2 failed; its output is in $cache/log"
}

if [ -n "$tree" ]; then
    # It takes make to ask for the version.
    install_programs
    version=$(make -s -C "$tree" ARCH=um kernelversion 2>/dev/null) || give_up "$tree: cannot read its version"
    contents=$(tree_version)
else
    version=$(debian_version) && [ -n "$version" ] ||
        { command -v apt-get >/dev/null 2>&1 && { apt update || true; } && version=$(debian_version) && [ -n "$version" ]; } || {
        # Debian 13 has only that one.
        [ -z "$may_be_newer" ] || exec "$0" --debian=6.12
        not_built=3
        give_up "there is no package $PACKAGE to be had: give --debian=$other or a kernel tree (6.1 is best)"
    }
    contents=''
fi
patches=$parts
gone=''
if [ "$(printf '%s\n' "$NEWER" "$version" | sort -V | head -n 1)" = "$NEWER" ]; then
    patches=$parts/$NEWER
    gone=$GONE
fi
# A compiler that was asked for makes another kernel.
key=$({ echo "$version $contents${CC:+ $CC}" && cat "$parts/config" "$patches"/*.patch; } | sha256sum | cut -c1-16)
result=$cache/$key

# Points the link at the result and ends. The link is replaced in one step.
finish() {
    if [ -z "$tree" ]; then
        # Two that find it at the same time do not take each other's.
        ln -sfn "$key" "$cache/.$link.$$"
        mv -T "$cache/.$link.$$" "$cache/$link"
    fi
    echo "$result/linux"
    exit 0
}

if [ -x "$result/linux" ]; then
    say "found: Linux $version, built before"
    finish
fi

install_programs
mkdir -p "$cache"
exec 9>"$cache/lock"
flock -n 9 || { say "waiting for another build" && flock 9; }
[ ! -x "$result/linux" ] || finish

# What a killed build left; there is no other while we hold the lock.
rm -rf "$cache"/building.*
work=$(mktemp -d "$cache/building.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM

if [ -n "$tree" ]; then copy_tree "$work"; else unpack_debian "$work"; fi
applied=$(patch_source "$work/source")
say "configuring Linux $version"
compile "$work/source" defconfig
cat "$parts/config" >>"$work/source/.config"
compile "$work/source" olddefconfig
check_config "$work/source"
say "compiling with $jobs jobs (five minutes on two processors)"
compile "$work/source" linux

mkdir "$work/result"
strip -o "$work/result/linux" "$work/source/linux"
cp "$work/source/.config" "$work/result/config"
{
    echo "source: ${tree:-$PACKAGE} $version"
    echo "patches:" $applied
    echo "config: $(sha256sum <"$parts/config" | cut -c1-16)"
    echo "compiler: $($cc --version | head -n 1)"
} >"$work/result/about"
rm -rf "$result"
mv -T "$work/result" "$result"
finish
