package posix

import "golang.org/x/sys/unix"

var openCases = []Case{
	{"open-missing", anyone, openMissing},
	{"open-exclusive", anyone, openExclusive},
	{"open-truncate", anyone, openTruncate},
	{"open-directory", anyone, openDirectory},
	{"open-nofollow", anyone, openNofollow},
	{"open-path", anyone, openPath},
	{"open-wrong-way", anyone, openWrongWay},
	{"open-slash", anyone, openSlash},
	{"open-direct", anyone, openDirect},
	{"open-direct-and-cached", anyone, openDirectAndCached},
	{"open-sync", anyone, openSync},
	{"open-flags", anyone, openFlags},
	{"open-noatime", root, openNoatime},
	{"open-tmpfile", anyone, openTmpfile},
	{"open-tmpfile-linked", anyone, openTmpfileLinked},
	{"open-at", anyone, openAt},
	{"open-many", anyone, openMany},
	{"open-again", anyone, openAgain},
	{"open-readonly-created", root, openReadonlyCreated},
	{"open-by-user", root, openByUser},
	{"open-offsets", anyone, openOffsets},
}

func openMissing(p *probe) {
	p.file("f", "")
	p.try("none", "none", unix.O_RDONLY)
	p.try("below none", "none/x", unix.O_CREAT|unix.O_WRONLY)
	p.try("below a file", "f/x", unix.O_CREAT|unix.O_WRONLY)
	_, err := unix.Open("", unix.O_RDONLY, 0)
	p.result("no name", err)
	p.exists("none")
	p.try("create", "none", unix.O_CREAT|unix.O_WRONLY) // it was missing a moment ago
	p.exists("none")
	p.size("none")
}

func openExclusive(p *probe) {
	p.file("f", "x")
	p.mkdir("d")
	p.need(unix.Symlink("f", p.at("symlink")))
	p.need(unix.Symlink("none", p.at("dangling")))
	for _, name := range []string{"f", "d", "symlink", "dangling", ".", "new", "new"} {
		p.try(name, name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR)
	}
	p.holds("f")
}

func openTruncate(p *probe) {
	p.file("f", "content")
	other := p.fd("f", unix.O_RDONLY)
	p.try("to write", "f", unix.O_WRONLY|unix.O_TRUNC)
	p.size("f")
	p.say("size by who has it open: %d", p.fstat(other).Size)
	p.file("f", "again")
	p.say("and again: %q", p.read(other, 10, 0))
	p.try("to read", "f", unix.O_RDONLY|unix.O_TRUNC)
	p.size("f")
	p.try("a new one", "new", unix.O_CREAT|unix.O_TRUNC|unix.O_WRONLY)
	p.size("new")
}

func openDirectory(p *probe) {
	p.file("f", "")
	p.mkdir("d")
	p.need(unix.Symlink("d", p.at("symlink")))
	p.try("a file as one", "f", unix.O_RDONLY|unix.O_DIRECTORY)
	p.try("as one", "d", unix.O_RDONLY|unix.O_DIRECTORY)
	p.try("through a link", "symlink", unix.O_RDONLY|unix.O_DIRECTORY)
	p.try("to write", "d", unix.O_WRONLY)
	p.try("to read and write", "d", unix.O_RDWR)
	p.try("with O_CREAT", "d", unix.O_RDONLY|unix.O_CREAT)
	p.try("with O_TRUNC", "d", unix.O_RDONLY|unix.O_TRUNC)
	fd := p.fd("d", unix.O_RDONLY)
	_, err := unix.Read(fd, make([]byte, 10))
	p.result("read", err)
	_, err = unix.Pread(fd, make([]byte, 10), 0)
	p.result("pread", err)
	_, err = unix.Write(fd, []byte("x"))
	p.result("write", err)
	p.result("truncate", unix.Ftruncate(fd, 0))
	p.result("truncate by name", unix.Truncate(p.at("d"), 0))
	p.result("sync", unix.Fsync(fd))
}

func openNofollow(p *probe) {
	p.file("f", "")
	p.mkdir("d")
	p.file("d/f", "")
	p.need(unix.Symlink("f", p.at("symlink")))
	p.need(unix.Symlink("d", p.at("dirlink")))
	p.try("a file", "f", unix.O_RDONLY|unix.O_NOFOLLOW)
	p.try("a link", "symlink", unix.O_RDONLY|unix.O_NOFOLLOW)
	p.try("a link to a directory", "dirlink", unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY)
	p.try("below one", "dirlink/f", unix.O_RDONLY|unix.O_NOFOLLOW)
	p.try("the link itself", "symlink", unix.O_PATH|unix.O_NOFOLLOW)
}

func openPath(p *probe) {
	p.file("f", "content")
	fd := p.fd("f", unix.O_PATH)
	p.say("size %d", p.fstat(fd).Size)
	_, err := unix.Read(fd, make([]byte, 1))
	p.result("read", err)
	p.result("chmod", unix.Fchmod(fd, 0o600))
	d := p.fd(".", unix.O_PATH|unix.O_DIRECTORY)
	f, err := unix.Openat(d, "f", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	p.result("open below", err)
	p.need(err)
	p.say("read %q", p.read(f, 10, 0))
	p.need(unix.Close(f))
}

func openWrongWay(p *probe) {
	p.file("f", "content")
	r, w := p.fd("f", unix.O_RDONLY), p.fd("f", unix.O_WRONLY)
	_, err := unix.Pwrite(r, []byte("x"), 0)
	p.result("write to a reader", err)
	_, err = unix.Pread(w, make([]byte, 1), 0)
	p.result("read from a writer", err)
	p.result("truncate a reader", unix.Ftruncate(r, 0))
	_, err = unix.Pwrite(w, []byte("x"), -1)
	p.result("write below zero", err)
	_, err = unix.Pread(r, make([]byte, 1), -1)
	p.result("read below zero", err)
	p.holds("f")
}

func openSlash(p *probe) {
	p.file("f", "")
	p.mkdir("d")
	p.try("a file", "f/", unix.O_RDONLY)
	p.try("a directory", "d/", unix.O_RDONLY)
	p.try("a new file", "new/", unix.O_CREAT|unix.O_WRONLY)
	p.try("many", "d//./../d/", unix.O_RDONLY)
	p.lists("")
}

func openDirect(p *probe) {
	fd := p.fd("f", unix.O_CREAT|unix.O_RDWR|unix.O_DIRECT)
	b := aligned(8192)
	for i := range b {
		b[i] = byte('a' + i/4096)
	}
	n, err := unix.Pwrite(fd, b, 4096)
	p.result("write", err)
	p.say("%d octets", n)
	clear(b)
	n, err = unix.Pread(fd, b, 4096)
	p.result("read", err)
	p.say("%d octets, %c and %c", n, b[0], b[8191])
	n, err = unix.Pread(fd, b, 8192)
	p.result("read to the end", err)
	p.say("%d octets", n)
	p.size("f")
}

// aligned makes n octets at the start of a page.
func aligned(n int) []byte {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		panic(err) // no memory
	}
	return b
}

func openDirectAndCached(p *probe) {
	direct, cached := p.fd("f", unix.O_CREAT|unix.O_RDWR|unix.O_DIRECT), p.fd("f", unix.O_RDWR)
	b := aligned(4096)
	copy(b, "direct")
	_, err := unix.Pwrite(direct, b, 0)
	p.need(err)
	p.say("cached sees %q", p.read(cached, 6, 0))
	p.write(cached, "cached", 0)
	_, err = unix.Pread(direct, b, 0)
	p.need(err)
	p.say("direct sees %q", b[:6])
	copy(b, "twice!")
	_, err = unix.Pwrite(direct, b, 0)
	p.need(err)
	p.say("cached sees %q", p.read(cached, 6, 0))
}

func openSync(p *probe) {
	for name, flag := range map[string]int{"sync": unix.O_SYNC, "dsync": unix.O_DSYNC} {
		p.write(p.fd(name, unix.O_CREAT|unix.O_RDWR|flag), "written", 3)
	}
	p.holds("sync")
	p.holds("dsync")
}

func openFlags(p *probe) {
	fd := p.fd("f", unix.O_CREAT|unix.O_RDWR|unix.O_APPEND|unix.O_TRUNC)
	flags := func() {
		n, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		p.need(err)
		p.say("append %v, direct %v, rw %v", n&unix.O_APPEND != 0, n&unix.O_DIRECT != 0, n&unix.O_ACCMODE == unix.O_RDWR)
	}
	flags()
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0)
	p.result("none", err)
	flags()
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_APPEND|unix.O_DIRECT)
	p.result("both", err)
	flags()
}

func openNoatime(p *probe) {
	p.of("mine", user, group, 0o644)
	p.of("yours", 0, 0, 0o644)
	p.as(user, group, nil, func() {
		p.try("own", "mine", unix.O_RDONLY|unix.O_NOATIME)
		p.try("another's", "yours", unix.O_RDONLY|unix.O_NOATIME)
	})
	p.changes("read", []string{"mine"}, func() { p.read(p.fd("mine", unix.O_RDONLY|unix.O_NOATIME), 3, 0) })
}

func openTmpfile(p *probe) {
	fd, err := unix.Open(p.dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	p.result("open", err)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	p.say("links %d", p.fstat(fd).Nlink)
	p.lists("")
}

func openTmpfileLinked(p *probe) {
	fd, err := unix.Open(p.dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	p.result("open", err)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	p.write(fd, "content", 0)
	p.result("link", unix.Linkat(unix.AT_FDCWD, procFD(fd), unix.AT_FDCWD, p.at("f"), unix.AT_SYMLINK_FOLLOW))
	p.holds("f")
}

func openAt(p *probe) {
	p.mkdir("d")
	p.file("d/f", "below")
	p.file("f", "above")
	d := p.fd("d", unix.O_RDONLY|unix.O_DIRECTORY)
	for _, name := range []string{"f", "../f", "./f", "none"} {
		fd, err := unix.Openat(d, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		p.result(name, err)
		if err == nil {
			p.say("%q", p.read(fd, 10, 0))
			p.need(unix.Close(fd))
		}
	}
	_, err := unix.Openat(p.fd("f", unix.O_RDONLY), "x", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	p.result("below a file", err)
}

func openMany(p *probe) {
	p.file("f", "content")
	for i := range 100 {
		if got := p.read(p.fd("f", unix.O_RDONLY), 10, 0); got != "content" {
			p.say("descriptor %d reads %q", i, got)
		}
	}
	p.result("unlink", unix.Unlink(p.at("f")))
	p.say("done")
}

// What one has closed, another finds who opens then.
func openAgain(p *probe) {
	for i, s := range []string{"first", "second one", "3rd"} {
		fd, err := unix.Open(p.at("f"), unix.O_CREAT|unix.O_TRUNC|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		p.need(err)
		p.write(fd, s, 0)
		p.need(unix.Close(fd))
		p.size("f")
		p.say("%d: %q", i, p.read(p.fd("f", unix.O_RDONLY), 100, 0))
	}
}

func openReadonlyCreated(p *probe) {
	p.need(unix.Chmod(p.dir, 0o777))
	p.as(user, group, nil, func() {
		fd, err := unix.Open(p.at("f"), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o444)
		p.result("create", err)
		p.need(err)
		p.write(fd, "written", 0)
		p.result("close", unix.Close(fd))
		p.try("to write", "f", unix.O_WRONLY)
	})
	p.holds("f")
	p.mode("f")
}

// A descriptor is good for whoever has it.
func openByUser(p *probe) {
	p.of("f", 0, 0, 0o600)
	fd := p.fd("f", unix.O_RDWR)
	p.as(user, group, nil, func() {
		p.say("read %q", p.read(fd, 10, 0))
		p.write(fd, "S", 0)
		p.result("sync", unix.Fsync(fd))
		p.result("truncate", unix.Ftruncate(fd, 3))
		p.result("chmod", unix.Fchmod(fd, 0o666))
		p.try("open", "f", unix.O_RDONLY)
	})
	p.holds("f")
}

func openOffsets(p *probe) {
	p.file("f", "0123456789")
	a, b := p.fd("f", unix.O_RDONLY), p.fd("f", unix.O_RDONLY)
	dup, err := unix.FcntlInt(uintptr(a), unix.F_DUPFD_CLOEXEC, 0)
	p.need(err)
	defer unix.Close(dup)
	next := func(fd int) string {
		buf := make([]byte, 3)
		n, err := unix.Read(fd, buf)
		p.need(err)
		return string(buf[:n])
	}
	p.say("%q %q %q", next(a), next(dup), next(b))
	_, err = unix.Seek(dup, 8, 0)
	p.need(err)
	p.say("%q %q %q", next(a), next(a), next(b))
}
