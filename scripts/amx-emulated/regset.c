// What the host says of NT_X86_XSTATE of a process that has not asked for AMX, and of one that has.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <unistd.h>
#include <signal.h>
#include <cpuid.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

static char state[65536];

static void look(int ask) {
	pid_t pid = fork();
	if (!pid) {
		if (ask && syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18))
			printf("arch_prctl(ARCH_REQ_XCOMP_PERM, 18): %s\n", strerror(errno)), fflush(stdout);
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		_exit(0);
	}
	int status;
	waitpid(pid, &status, 0);
	struct iovec whole = { state, sizeof state };
	long got = ptrace(PTRACE_GETREGSET, pid, (void *)0x202, &whole);
	printf("%s: GETREGSET gives %zu bytes (%s), xstate_bv %#lx xcomp_bv %#lx\n", ask ? "asked for AMX" : "has not asked",
	       whole.iov_len, got ? strerror(errno) : "ok", *(long *)(state + 512), *(long *)(state + 520));
	struct iovec part = { state, 2696 };
	long part_result = ptrace(PTRACE_SETREGSET, pid, (void *)0x202, &part);
	printf("  SETREGSET of 2696 bytes: %s\n", part_result ? strerror(errno) : "ok");
	long whole_result = ptrace(PTRACE_SETREGSET, pid, (void *)0x202, &whole);
	printf("  SETREGSET of %zu bytes: %s\n", whole.iov_len, whole_result ? strerror(errno) : "ok");
	fflush(stdout);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

int main(void) {
	unsigned a, b, c, d;
	struct utsname u;
	uname(&u);
	printf("kernel %s\n", u.release);
	__cpuid_count(7, 0, a, b, c, d);
	printf("CPUID 7.0 edx: AMX-BF16 %u AMX-TILE %u AMX-INT8 %u\n", d >> 22 & 1, d >> 24 & 1, d >> 25 & 1);
	__cpuid_count(0xd, 0, a, b, c, d);
	printf("CPUID d.0: XCR0 bits %#x, size of enabled %u, largest %u\n", a, b, c);
	fflush(stdout);
	look(0);
	look(1);
	return 0;
}
