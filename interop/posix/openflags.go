package posix

import "golang.org/x/sys/unix"

var openFlagCases = []Case{
	{"open-direct", anyone, openDirect},
	{"open-direct-and-cached", anyone, openDirectAndCached},
	{"open-sync", anyone, openSync},
	{"open-flags", anyone, openFlags},
	{"open-noatime", root, openNoatime},
	{"open-tmpfile", anyone, openTmpfile},
	{"open-tmpfile-linked", anyone, openTmpfileLinked},
}

func openDirect(p *probe) {
	fd := p.openFD("f", unix.O_CREAT|unix.O_RDWR|unix.O_DIRECT)
	b := alignedBytes(8192)
	for i := range b {
		b[i] = byte('a' + i/4096)
	}
	n, err := unix.Pwrite(fd, b, 4096)
	p.sayError("write", err)
	p.say("%d bytes", n)
	clear(b)
	n, err = unix.Pread(fd, b, 4096)
	p.sayError("read", err)
	p.say("%d bytes, %c and %c", n, b[0], b[8191])
	n, err = unix.Pread(fd, b, 8192)
	p.sayError("read to the end", err)
	p.say("%d bytes", n)
	p.saySize("f")
}

// alignedBytes returns n page-aligned bytes.
func alignedBytes(n int) []byte {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		panic(err) // no memory
	}
	return b
}

func openDirectAndCached(p *probe) {
	direct, cached := p.openFD("f", unix.O_CREAT|unix.O_RDWR|unix.O_DIRECT), p.openFD("f", unix.O_RDWR)
	b := alignedBytes(4096)
	copy(b, "direct")
	_, err := unix.Pwrite(direct, b, 0)
	p.mustSucceed(err)
	p.say("cached sees %q", p.readAt(cached, 6, 0))
	p.writeAt(cached, "cached", 0)
	_, err = unix.Pread(direct, b, 0)
	p.mustSucceed(err)
	p.say("direct sees %q", b[:6])
	copy(b, "twice!")
	_, err = unix.Pwrite(direct, b, 0)
	p.mustSucceed(err)
	p.say("cached sees %q", p.readAt(cached, 6, 0))
}

func openSync(p *probe) {
	for name, flag := range map[string]int{"sync": unix.O_SYNC, "dsync": unix.O_DSYNC} {
		p.writeAt(p.openFD(name, unix.O_CREAT|unix.O_RDWR|flag), "written", 3)
	}
	p.sayContent("sync")
	p.sayContent("dsync")
}

func openFlags(p *probe) {
	fd := p.openFD("f", unix.O_CREAT|unix.O_RDWR|unix.O_APPEND|unix.O_TRUNC)
	flags := func() {
		n, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		p.mustSucceed(err)
		p.say("append %v, direct %v, rw %v", n&unix.O_APPEND != 0, n&unix.O_DIRECT != 0, n&unix.O_ACCMODE == unix.O_RDWR)
	}
	flags()
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0)
	p.sayError("none", err)
	flags()
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_APPEND|unix.O_DIRECT)
	p.sayError("both", err)
	flags()
}

func openNoatime(p *probe) {
	p.makeOwned("mine", user, group, 0o644)
	p.makeOwned("yours", 0, 0, 0o644)
	p.runAs(user, group, nil, func() {
		p.tryOpen("own", "mine", unix.O_RDONLY|unix.O_NOATIME)
		p.tryOpen("another's", "yours", unix.O_RDONLY|unix.O_NOATIME)
	})
	p.sayChanges("read", []string{"mine"}, func() { p.readAt(p.openFD("mine", unix.O_RDONLY|unix.O_NOATIME), 3, 0) })
}

func openTmpfile(p *probe) {
	fd, err := unix.Open(p.dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	p.sayError("open", err)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	p.say("links %d", p.fstat(fd).Nlink)
	p.sayEntries("")
}

func openTmpfileLinked(p *probe) {
	fd, err := unix.Open(p.dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	p.sayError("open", err)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	p.writeAt(fd, "content", 0)
	p.sayError("link", unix.Linkat(unix.AT_FDCWD, procFD(fd), unix.AT_FDCWD, p.pathOf("f"), unix.AT_SYMLINK_FOLLOW))
	p.sayContent("f")
}
