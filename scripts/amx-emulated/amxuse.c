// Uses AMX: without permission, and after asking for it. In a guest both must end in SIGILL for this program
// alone; on the host the second works.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <errno.h>
#include <unistd.h>
#include <sys/wait.h>
#include <sys/syscall.h>

static unsigned char config[64] __attribute__((aligned(64))), data[16][64], back[16][64];

static int use(int ask) {
	fflush(stdout);
	pid_t pid = fork();
	if (!pid) {
		if (ask) {
			long asked = syscall(SYS_arch_prctl, 0x1023, 18);
			printf("asked: %s\n", asked ? strerror(errno) : "granted");
			fflush(stdout);
		}
		config[0] = 1;
		config[16] = 64; // bytes of a row of tile 0
		config[48] = 8;  // rows
		for (int i = 0; i < 8; i++) memset(data[i], i + 1, 64);
		long stride = 64;
		asm volatile("ldtilecfg (%0)" :: "r"(config) : "memory");
		asm volatile("tileloadd (%0,%1,1), %%tmm0" :: "r"(data), "r"(stride) : "memory");
		for (int i = 0; i < 20; i++) syscall(SYS_sched_yield);
		asm volatile("tilestored %%tmm0, (%0,%1,1)" :: "r"(back), "r"(stride) : "memory");
		asm volatile("tilerelease");
		_exit(memcmp(data, back, 8 * 64) ? 1 : 0);
	}
	int status;
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status)) printf("%s: killed by signal %d\n", ask ? "asked" : "not asked", WTERMSIG(status));
	else printf("%s: tile %s\n", ask ? "asked" : "not asked", WEXITSTATUS(status) ? "LOST" : "kept");
	return 0;
}

int main(void) {
	use(0);
	use(1);
	return 0;
}
