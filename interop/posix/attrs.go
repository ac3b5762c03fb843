package posix

import "golang.org/x/sys/unix"

var attrCases = []Case{
	{"xattr-user", anyone, xattrUser},
	{"xattr-list", anyone, xattrList},
	{"acl", anyone, testACL},
	{"stat-kinds", anyone, statKinds},
	{"stat-blocks", anyone, statBlocks},
	{"stat-device", anyone, statDevice},
	{"stat-descriptor", anyone, statDescriptor},
}

func xattrUser(p *probe) {
	p.makeFile("f", "")
	p.sayError("set", unix.Setxattr(p.pathOf("f"), "user.test", []byte("value"), 0))
	b := make([]byte, 100)
	n, err := unix.Getxattr(p.pathOf("f"), "user.test", b)
	p.sayError("get", err)
	if err == nil {
		p.say("%q", b[:n])
	}
	_, err = unix.Getxattr(p.pathOf("f"), "user.none", b)
	p.sayError("get what is not there", err)
	p.sayError("remove", unix.Removexattr(p.pathOf("f"), "user.test"))
}

func xattrList(p *probe) {
	p.makeFile("f", "")
	n, err := unix.Listxattr(p.pathOf("f"), make([]byte, 100))
	p.say("%d %s", n, errorName(err))
}

func testACL(p *probe) {
	p.makeFile("f", "")
	_, err := unix.Getxattr(p.pathOf("f"), aclAccess, make([]byte, 100))
	p.sayError("get", err)
}

func statKinds(p *probe) {
	p.makeFile("file", "")
	p.makeDir("dir")
	p.mustSucceed(unix.Symlink("x", p.pathOf("symlink")))
	p.mustSucceed(unix.Mkfifo(p.pathOf("fifo"), 0o640))
	p.mustSucceed(unix.Mknod(p.pathOf("socket"), unix.S_IFSOCK|0o600, 0))
	for _, name := range []string{"file", "dir", "symlink", "fifo", "socket"} {
		st := p.lstat(name)
		p.say("%s: %o, links %d", name, st.Mode, st.Nlink)
	}
}

func statBlocks(p *probe) {
	p.makeFile("empty", "")
	p.say("of nothing: %d", p.lstat("empty").Blocks)
	p.say("a size of block: %v", p.lstat("empty").Blksize >= 512)
}

func statDevice(p *probe) {
	p.makeDir("d")
	p.makeFile("d/f", "")
	p.say("one file system: %v", p.lstat("d/f").Dev == p.lstat(".").Dev)
	a, b := p.lstat("d").Ino, p.lstat("d/f").Ino
	p.say("numbers of their own: %v", a != b && a != 0 && b != 0)
	p.say("which stay: %v", b == p.lstat("d/f").Ino)
}

func statDescriptor(p *probe) {
	p.makeFile("f", "content")
	fd := p.openFD("f", unix.O_RDONLY)
	a, b := p.fstat(fd), p.lstat("f")
	p.say("as by name: %v", a == b)
	var x unix.Statx_t
	p.sayError("statx", unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &x))
	p.say("size %d, mode %o", x.Size, x.Mode)
	p.sayError("statx synced", unix.Statx(unix.AT_FDCWD, p.pathOf("f"), unix.AT_STATX_FORCE_SYNC, unix.STATX_BASIC_STATS, &x))
	p.say("size %d", x.Size)
}
