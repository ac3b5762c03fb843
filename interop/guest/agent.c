/*
 * guest-agent: runs shell scripts in the guest for a test on the host.
 *
 * Listens on the TCP port argv[1]. One connection is one script:
 *	host -> guest:	"<decimal length>\n", that many bytes of shell script,
 *			then the script's standard input up to the half-close
 *	guest -> host:	what the script writes to stdout and stderr, then
 *			"\0@rc=<exit status>\n", then close
 * The script has the connection itself as descriptors 0, 1 and 2; the trailer
 * follows when the script ends, even if it leaves something in the background.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_SCRIPT (1 << 20) /* bytes */

static int read_full(int fd, char *p, size_t n)
{
	while (n > 0) {
		ssize_t r = read(fd, p, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return -1;
		p += r;
		n -= r;
	}
	return 0;
}

static int write_full(int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t r = write(fd, p, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return -1;
		p += r;
		n -= r;
	}
	return 0;
}

/* Reads the script into a new file and leaves the file's name in path. */
static int take_script(int fd, char *path)
{
	char line[32], *script;
	size_t i = 0, len;
	int sfd, err;

	for (;;) {
		if (i >= sizeof(line) - 1 || read_full(fd, line + i, 1))
			return -1;
		if (line[i] == '\n')
			break;
		i++;
	}
	line[i] = 0;
	len = strtoul(line, NULL, 10);
	if (len > MAX_SCRIPT)
		return -1;
	script = malloc(len + 1);
	if (!script || read_full(fd, script, len))
		return -1;
	sfd = mkstemp(path);
	if (sfd < 0)
		return -1;
	err = write_full(sfd, script, len);
	close(sfd);
	free(script);
	return err;
}

static void serve(int fd)
{
	char path[] = "/tmp/agent-XXXXXX", end[32], buf[4096];
	int st, rc, n;
	pid_t pid;

	if (take_script(fd, path))
		return;
	pid = fork();
	if (pid == 0) {
		setsid();
		signal(SIGPIPE, SIG_DFL);
		dup2(fd, 0);
		dup2(fd, 1);
		dup2(fd, 2);
		close(fd);
		execl("/bin/sh", "sh", path, (char *)NULL);
		_exit(127);
	}
	while (waitpid(pid, &st, 0) < 0 && errno == EINTR)
		;
	unlink(path);
	rc = WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
	n = snprintf(end, sizeof(end), "%c@rc=%d\n", 0, rc);
	write_full(fd, end, n);
	shutdown(fd, SHUT_WR);
	/* Wait for the peer so that nothing in flight is reset. */
	while (read(fd, buf, sizeof(buf)) > 0)
		;
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	int one = 1, s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_port = htons(argc > 1 ? atoi(argv[1]) : 7777);
	a.sin_addr.s_addr = htonl(INADDR_ANY);
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(s, (struct sockaddr *)&a, sizeof(a)) || listen(s, 64)) {
		perror("guest-agent");
		return 1;
	}
	signal(SIGPIPE, SIG_IGN);
	for (;;) {
		int fd = accept(s, NULL, NULL);
		pid_t pid;

		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (fd < 0)
			continue;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		pid = fork();
		if (pid == 0) {
			close(s);
			serve(fd);
			_exit(0);
		}
		close(fd);
	}
}
