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
	fd := p.fd("f", unix.O_CREAT|unix.O_RDWR|unix.O_DIRECT)
	b := aligned(8192)
	for i := range b {
		b[i] = byte('a' + i/4096)
	}
	n, err := unix.Pwrite(fd, b, 4096)
	p.result("write", err)
	p.say("%d bytes", n)
	clear(b)
	n, err = unix.Pread(fd, b, 4096)
	p.result("read", err)
	p.say("%d bytes, %c and %c", n, b[0], b[8191])
	n, err = unix.Pread(fd, b, 8192)
	p.result("read to the end", err)
	p.say("%d bytes", n)
	p.size("f")
}

// aligned returns n page-aligned bytes.
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
