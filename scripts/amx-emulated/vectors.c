// Two processes keep patterns in all vector registers over system calls and switches: does each find
// its own again? With AVX-512 zmm0-31 and k1-7, else ymm0-15. And: may a program here use AMX?
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <errno.h>
#include <unistd.h>
#include <stdlib.h>
#include <sched.h>
#include <sys/wait.h>
#include <sys/syscall.h>
#include <cpuid.h>

static unsigned char in[32][64] __attribute__((aligned(64))), out[32][64] __attribute__((aligned(64)));

#define L(n) "vmovdqa64 " #n "*64(%[in]), %%zmm" #n "\n"
#define S(n) "vmovdqa64 %%zmm" #n ", " #n "*64(%[out])\n"
#define ALL(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) \
	X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)

static int round_of(unsigned seed) {
	for (int i = 0; i < 32; i++) for (int j = 0; j < 64; j++) in[i][j] = (unsigned char)(seed * 131 + i * 67 + j * 29);
	memset(out, 0, sizeof out);
	unsigned long mask = 0x0123456789abcdefUL ^ seed, mask_after = 0;
	long nr = SYS_sched_yield;
	asm volatile("kmovq %[mask], %%k5\n" ALL(L)
		"mov %[nr], %%rax\n syscall\n mov %[nr], %%rax\n syscall\n mov %[nr], %%rax\n syscall\n"
		ALL(S) "kmovq %%k5, %[after]\n"
		: [after] "=&r"(mask_after)
		: [in] "r"(in), [out] "r"(out), [nr] "r"(nr), [mask] "r"(mask)
		: "rax", "rcx", "r11", "memory");
	return memcmp(in, out, sizeof in) != 0 || mask != mask_after;
}

int main(int argc, char **argv) {
	int rounds = argc > 1 ? atoi(argv[1]) : 200;
	unsigned a, b, c, d;
	__cpuid_count(7, 0, a, b, c, d);
	printf("AVX-512F %u, AMX-TILE %u\n", b >> 16 & 1, d >> 24 & 1);
	long asked = syscall(SYS_arch_prctl, 0x1023, 18);
	printf("arch_prctl(ARCH_REQ_XCOMP_PERM, 18): %s\n", asked ? strerror(errno) : "granted");
	fflush(stdout);
	if (!(b >> 16 & 1)) return 77;
	pid_t child = fork();
	int bad = 0;
	for (int i = 0; i < rounds; i++) bad += round_of((child ? 1 : 100000) + i);
	printf("%s: %d of %d rounds lost registers\n", child ? "parent" : "child", bad, rounds);
	fflush(stdout);
	if (!child) _exit(bad != 0);
	int status;
	waitpid(child, &status, 0);
	return bad || status;
}
