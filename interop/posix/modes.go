package posix

import "golang.org/x/sys/unix"

var modeCases = []Case{
	{"mode-create", anyone, modeCreate},
	{"mode-umask", anyone, modeUmask},
	{"mode-mkdir", anyone, modeMkdir},
	{"mode-mknod", anyone, modeMknod},
	{"mode-existing", anyone, modeExisting},
	{"chmod-file", anyone, chmodFile},
	{"chmod-dir", anyone, chmodDir},
	{"chmod-through-symlink", anyone, chmodThroughSymlink},
	{"chmod-descriptor", anyone, chmodDescriptor},
	{"chmod-missing", anyone, chmodMissing},
	{"chmod-by-user", root, chmodByUser},
	{"chmod-setgid-by-user", root, chmodSetgidByUser},
	{"chmod-while-open", root, chmodWhileOpen},
}

// createFile makes a file with open(2).
func (p *probe) createFile(name string, mode uint32) {
	fd, err := unix.Open(p.pathOf(name), unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, mode)
	p.mustSucceed(err)
	p.mustSucceed(unix.Close(fd))
}

func modeCreate(p *probe) {
	defer unix.Umask(unix.Umask(0))
	for name, mode := range map[string]uint32{"none": 0, "own": 0o600, "all": 0o777, "read": 0o444} {
		p.createFile(name, mode)
	}
	for _, name := range []string{"none", "own", "all", "read"} {
		p.sayMode(name)
	}
}

func modeUmask(p *probe) {
	defer unix.Umask(unix.Umask(0o027))
	p.createFile("file", 0o666)
	p.mustSucceed(unix.Mkdir(p.pathOf("dir"), 0o777))
	p.mustSucceed(unix.Mknod(p.pathOf("fifo"), unix.S_IFIFO|0o666, 0))
	p.mustSucceed(unix.Symlink("file", p.pathOf("symlink")))
	for _, name := range []string{"file", "dir", "fifo", "symlink"} {
		p.sayMode(name)
	}
	unix.Umask(0o777)
	p.createFile("nothing", 0o777)
	p.sayMode("nothing")
}

func modeMkdir(p *probe) {
	defer unix.Umask(unix.Umask(0))
	p.mustSucceed(unix.Mkdir(p.pathOf("plain"), 0o750))
	p.mustSucceed(unix.Mkdir(p.pathOf("sticky"), 0o1777))
	p.sayMode("plain")
	p.sayMode("sticky")
}

func modeMknod(p *probe) {
	defer unix.Umask(unix.Umask(0o002))
	p.mustSucceed(unix.Mknod(p.pathOf("file"), unix.S_IFREG|0o666, 0))
	p.mustSucceed(unix.Mknod(p.pathOf("plain"), 0o640, 0)) // no type: a regular file
	p.sayMode("file")
	p.sayMode("plain")
	p.say("regular: %v", p.lstat("plain").Mode&unix.S_IFMT == unix.S_IFREG)
}

func modeExisting(p *probe) {
	p.createFile("file", 0o600)
	fd, err := unix.Open(p.pathOf("file"), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o777)
	p.mustSucceed(err)
	p.mustSucceed(unix.Close(fd))
	p.sayMode("file")
}

func chmodFile(p *probe) {
	p.makeFile("file", "x")
	for bit := uint32(1); bit <= 0o4000; bit <<= 1 {
		p.sayError("chmod", unix.Chmod(p.pathOf("file"), bit))
		p.sayMode("file")
	}
	p.mustSucceed(unix.Chmod(p.pathOf("file"), 0o7777))
	p.sayMode("file")
}

func chmodDir(p *probe) {
	p.makeDir("dir")
	for _, mode := range []uint32{0, 0o700, 0o1777, 0o2755, 0o4711, 0o7777, 0o755} {
		p.mustSucceed(unix.Chmod(p.pathOf("dir"), mode))
		p.sayMode("dir")
	}
}

func chmodThroughSymlink(p *probe) {
	p.makeFile("file", "x")
	p.mustSucceed(unix.Symlink("file", p.pathOf("symlink")))
	p.sayError("chmod", unix.Chmod(p.pathOf("symlink"), 0o640))
	p.sayMode("file")
	p.sayMode("symlink")
}

func chmodDescriptor(p *probe) {
	p.makeFile("file", "x")
	p.makeDir("dir")
	p.sayError("of a reader", unix.Fchmod(p.openFD("file", unix.O_RDONLY), 0o604))
	p.sayError("of a directory", unix.Fchmod(p.openFD("dir", unix.O_RDONLY), 0o705))
	p.sayMode("file")
	p.sayMode("dir")
}

func chmodMissing(p *probe) {
	p.makeFile("file", "x")
	p.sayError("missing", unix.Chmod(p.pathOf("none"), 0o600))
	p.sayError("below a file", unix.Chmod(p.pathOf("file/x"), 0o600))
	p.mustSucceed(unix.Symlink("none", p.pathOf("dangling")))
	p.sayError("dangling", unix.Chmod(p.pathOf("dangling"), 0o600))
}

func chmodByUser(p *probe) {
	p.makeFile("mine", "")
	p.makeFile("yours", "")
	p.mustSucceed(unix.Chown(p.pathOf("mine"), user, group))
	p.runAs(user, group, nil, func() {
		p.sayError("own", unix.Chmod(p.pathOf("mine"), 0o606))
		p.sayError("another's", unix.Chmod(p.pathOf("yours"), 0o606))
	})
	p.sayMode("mine")
	p.sayMode("yours")
}

// A user outside the file's group cannot set set-group-ID.
func chmodSetgidByUser(p *probe) {
	for name, gid := range map[string]int{"in": group, "out": otherGroup} {
		p.makeFile(name, "")
		p.mustSucceed(unix.Chown(p.pathOf(name), user, gid))
	}
	p.runAs(user, group, nil, func() {
		p.sayError("in the group", unix.Chmod(p.pathOf("in"), 0o2755))
		p.sayError("not in the group", unix.Chmod(p.pathOf("out"), 0o2755))
	})
	p.sayMode("in")
	p.sayMode("out")
}

// chmodWhileOpen checks that an open descriptor stays usable after any change
// of the mode.
func chmodWhileOpen(p *probe) {
	p.makeFile("file", "content")
	p.mustSucceed(unix.Chown(p.pathOf("file"), user, group))
	p.runAs(user, group, nil, func() {
		fd := p.openFD("file", unix.O_RDWR)
		p.mustSucceed(unix.Chmod(p.pathOf("file"), 0))
		b := make([]byte, 7)
		_, err := unix.Pread(fd, b, 0)
		p.sayError("read", err)
		p.say("%q", b)
		_, err = unix.Pwrite(fd, []byte("CON"), 0)
		p.sayError("write", err)
		p.sayError("sync", unix.Fsync(fd))
		p.sayError("truncate", unix.Ftruncate(fd, 5))
		p.tryOpen("open again", "file", unix.O_RDONLY)
	})
	p.sayContent("file")
}
