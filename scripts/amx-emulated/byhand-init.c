// init of a guest that was started by hand: run a program, switch off.
#include <stdio.h>
#include <unistd.h>
#include <sys/reboot.h>
#include <sys/utsname.h>
#include <sys/wait.h>
int main(void) {
	struct utsname u;
	uname(&u);
	printf("GUEST: init runs, on %s\n", u.release);
	fflush(stdout);
	pid_t pid = fork();
	if (!pid) { execl("/t/vectors", "vectors", "20", (char *)0); _exit(127); }
	int status = -1;
	waitpid(pid, &status, 0);
	printf("GUEST: vectors ended with %d, switching off\n", status);
	fflush(stdout);
	sleep(1);
	reboot(RB_POWER_OFF);
	return 1;
}
