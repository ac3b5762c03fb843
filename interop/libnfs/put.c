// put copies its input to a file of an NFS server by libnfs, for TestLibNFS4. It
// writes the file under another name, in a directory of its own.
//
//	put URL NAME	URL is of the directory
#include <sys/time.h> // for libnfs.h

#include <fcntl.h>
#include <nfsc/libnfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct nfs_context *nfs;

static void must(int status, const char *what)
{
	if (status >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, nfs_get_error(nfs));
	exit(1);
}

int main(int argc, char **argv)
{
	if (argc != 3 || (nfs = nfs_init_context()) == NULL)
		return 2;
	struct nfs_url *url = nfs_parse_url_dir(nfs, argv[1]);
	if (url == NULL)
		must(-1, "url");
	must(nfs_mount(nfs, url->server, url->path), "mount");
	must(nfs_mkdir(nfs, "/part"), "mkdir");
	struct nfsfh *f;
	must(nfs_open2(nfs, "/part/file", O_CREAT | O_RDWR, 0640, &f), "open");
	char block[3000]; // libnfs 4.0.0 cannot send more than about 4 KB by version 4
	int n, at = 0;
	while ((n = read(0, block, sizeof block)) > 0) {
		int wrote = nfs_pwrite(nfs, f, at, n, block);
		must(wrote, "write");
		at += wrote;
		if (wrote < n)
			return 1;
	}
	must(nfs_fsync(nfs, f), "fsync");
	must(nfs_close(nfs, f), "close");
	must(nfs_rename(nfs, "/part/file", argv[2]), "rename");
	must(nfs_rmdir(nfs, "/part"), "rmdir");
	nfs_destroy_url(url);
	nfs_destroy_context(nfs);
	return 0;
}
