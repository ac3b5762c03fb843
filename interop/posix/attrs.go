package posix

import "golang.org/x/sys/unix"

var attrCases = []Case{
	{"xattr-user", anyone, xattrUser},
	{"xattr-list", anyone, xattrList},
	{"acl", anyone, acl},
	{"stat-kinds", anyone, statKinds},
	{"stat-blocks", anyone, statBlocks},
	{"stat-device", anyone, statDevice},
	{"stat-descriptor", anyone, statDescriptor},
}

func xattrUser(p *probe) {
	p.file("f", "")
	p.result("set", unix.Setxattr(p.at("f"), "user.test", []byte("value"), 0))
	b := make([]byte, 100)
	n, err := unix.Getxattr(p.at("f"), "user.test", b)
	p.result("get", err)
	if err == nil {
		p.say("%q", b[:n])
	}
	_, err = unix.Getxattr(p.at("f"), "user.none", b)
	p.result("get what is not there", err)
	p.result("remove", unix.Removexattr(p.at("f"), "user.test"))
}

func xattrList(p *probe) {
	p.file("f", "")
	n, err := unix.Listxattr(p.at("f"), make([]byte, 100))
	p.say("%d %s", n, word(err))
}

func acl(p *probe) {
	p.file("f", "")
	_, err := unix.Getxattr(p.at("f"), aclAccess, make([]byte, 100))
	p.result("get", err)
}

func statKinds(p *probe) {
	p.file("file", "")
	p.mkdir("dir")
	p.need(unix.Symlink("x", p.at("symlink")))
	p.need(unix.Mkfifo(p.at("fifo"), 0o640))
	p.need(unix.Mknod(p.at("socket"), unix.S_IFSOCK|0o600, 0))
	for _, name := range []string{"file", "dir", "symlink", "fifo", "socket"} {
		st := p.status(name)
		p.say("%s: %o, links %d", name, st.Mode, st.Nlink)
	}
}

func statBlocks(p *probe) {
	p.file("empty", "")
	p.say("of nothing: %d", p.status("empty").Blocks)
	p.say("a size of block: %v", p.status("empty").Blksize >= 512)
}

func statDevice(p *probe) {
	p.mkdir("d")
	p.file("d/f", "")
	p.say("one file system: %v", p.status("d/f").Dev == p.status(".").Dev)
	a, b := p.status("d").Ino, p.status("d/f").Ino
	p.say("numbers of their own: %v", a != b && a != 0 && b != 0)
	p.say("which stay: %v", b == p.status("d/f").Ino)
}

func statDescriptor(p *probe) {
	p.file("f", "content")
	fd := p.fd("f", unix.O_RDONLY)
	a, b := p.fstat(fd), p.status("f")
	p.say("as by name: %v", a == b)
	var x unix.Statx_t
	p.result("statx", unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &x))
	p.say("size %d, mode %o", x.Size, x.Mode)
	p.result("statx synced", unix.Statx(unix.AT_FDCWD, p.at("f"), unix.AT_STATX_FORCE_SYNC, unix.STATX_BASIC_STATS, &x))
	p.say("size %d", x.Size)
}
