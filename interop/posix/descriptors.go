package posix

import "golang.org/x/sys/unix"

var descriptorCases = []Case{
	{"open-at", anyone, openAt},
	{"open-many", anyone, openMany},
	{"open-again", anyone, openAgain},
	{"open-readonly-created", root, openReadonlyCreated},
	{"open-by-user", root, openByUser},
	{"open-offsets", anyone, openOffsets},
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

// An open after a close sees the closed descriptor's changes.
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

// A descriptor is valid for any user that holds it.
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
