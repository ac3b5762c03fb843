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

// create makes a file with open(2).
func (p *probe) create(name string, mode uint32) {
	fd, err := unix.Open(p.at(name), unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, mode)
	p.need(err)
	p.need(unix.Close(fd))
}

func modeCreate(p *probe) {
	defer unix.Umask(unix.Umask(0))
	for name, mode := range map[string]uint32{"none": 0, "own": 0o600, "all": 0o777, "read": 0o444} {
		p.create(name, mode)
	}
	for _, name := range []string{"none", "own", "all", "read"} {
		p.mode(name)
	}
}

func modeUmask(p *probe) {
	defer unix.Umask(unix.Umask(0o027))
	p.create("file", 0o666)
	p.need(unix.Mkdir(p.at("dir"), 0o777))
	p.need(unix.Mknod(p.at("fifo"), unix.S_IFIFO|0o666, 0))
	p.need(unix.Symlink("file", p.at("symlink")))
	for _, name := range []string{"file", "dir", "fifo", "symlink"} {
		p.mode(name)
	}
	unix.Umask(0o777)
	p.create("nothing", 0o777)
	p.mode("nothing")
}

func modeMkdir(p *probe) {
	defer unix.Umask(unix.Umask(0))
	p.need(unix.Mkdir(p.at("plain"), 0o750))
	p.need(unix.Mkdir(p.at("sticky"), 0o1777))
	p.mode("plain")
	p.mode("sticky")
}

func modeMknod(p *probe) {
	defer unix.Umask(unix.Umask(0o002))
	p.need(unix.Mknod(p.at("file"), unix.S_IFREG|0o666, 0))
	p.need(unix.Mknod(p.at("plain"), 0o640, 0)) // no type: a regular file
	p.mode("file")
	p.mode("plain")
	p.say("regular: %v", p.status("plain").Mode&unix.S_IFMT == unix.S_IFREG)
}

func modeExisting(p *probe) {
	p.create("file", 0o600)
	fd, err := unix.Open(p.at("file"), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o777)
	p.need(err)
	p.need(unix.Close(fd))
	p.mode("file")
}

func chmodFile(p *probe) {
	p.file("file", "x")
	for bit := uint32(1); bit <= 0o4000; bit <<= 1 {
		p.result("chmod", unix.Chmod(p.at("file"), bit))
		p.mode("file")
	}
	p.need(unix.Chmod(p.at("file"), 0o7777))
	p.mode("file")
}

func chmodDir(p *probe) {
	p.mkdir("dir")
	for _, mode := range []uint32{0, 0o700, 0o1777, 0o2755, 0o4711, 0o7777, 0o755} {
		p.need(unix.Chmod(p.at("dir"), mode))
		p.mode("dir")
	}
}

func chmodThroughSymlink(p *probe) {
	p.file("file", "x")
	p.need(unix.Symlink("file", p.at("symlink")))
	p.result("chmod", unix.Chmod(p.at("symlink"), 0o640))
	p.mode("file")
	p.mode("symlink")
}

func chmodDescriptor(p *probe) {
	p.file("file", "x")
	p.mkdir("dir")
	p.result("of a reader", unix.Fchmod(p.fd("file", unix.O_RDONLY), 0o604))
	p.result("of a directory", unix.Fchmod(p.fd("dir", unix.O_RDONLY), 0o705))
	p.mode("file")
	p.mode("dir")
}

func chmodMissing(p *probe) {
	p.file("file", "x")
	p.result("missing", unix.Chmod(p.at("none"), 0o600))
	p.result("below a file", unix.Chmod(p.at("file/x"), 0o600))
	p.need(unix.Symlink("none", p.at("dangling")))
	p.result("dangling", unix.Chmod(p.at("dangling"), 0o600))
}

func chmodByUser(p *probe) {
	p.file("mine", "")
	p.file("yours", "")
	p.need(unix.Chown(p.at("mine"), user, group))
	p.as(user, group, nil, func() {
		p.result("own", unix.Chmod(p.at("mine"), 0o606))
		p.result("another's", unix.Chmod(p.at("yours"), 0o606))
	})
	p.mode("mine")
	p.mode("yours")
}

// A user outside the file's group cannot set set-group-ID.
func chmodSetgidByUser(p *probe) {
	for name, gid := range map[string]int{"in": group, "out": otherGroup} {
		p.file(name, "")
		p.need(unix.Chown(p.at(name), user, gid))
	}
	p.as(user, group, nil, func() {
		p.result("in the group", unix.Chmod(p.at("in"), 0o2755))
		p.result("not in the group", unix.Chmod(p.at("out"), 0o2755))
	})
	p.mode("in")
	p.mode("out")
}

// chmodWhileOpen checks that an open descriptor stays usable after any change
// of the mode.
func chmodWhileOpen(p *probe) {
	p.file("file", "content")
	p.need(unix.Chown(p.at("file"), user, group))
	p.as(user, group, nil, func() {
		fd := p.fd("file", unix.O_RDWR)
		p.need(unix.Chmod(p.at("file"), 0))
		b := make([]byte, 7)
		_, err := unix.Pread(fd, b, 0)
		p.result("read", err)
		p.say("%q", b)
		_, err = unix.Pwrite(fd, []byte("CON"), 0)
		p.result("write", err)
		p.result("sync", unix.Fsync(fd))
		p.result("truncate", unix.Ftruncate(fd, 5))
		p.try("open again", "file", unix.O_RDONLY)
	})
	p.holds("file")
}
