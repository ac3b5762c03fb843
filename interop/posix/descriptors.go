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
	p.makeDir("d")
	p.makeFile("d/f", "below")
	p.makeFile("f", "above")
	d := p.openFD("d", unix.O_RDONLY|unix.O_DIRECTORY)
	for _, name := range []string{"f", "../f", "./f", "none"} {
		fd, err := unix.Openat(d, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		p.sayError(name, err)
		if err == nil {
			p.say("%q", p.readAt(fd, 10, 0))
			p.mustSucceed(unix.Close(fd))
		}
	}
	_, err := unix.Openat(p.openFD("f", unix.O_RDONLY), "x", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	p.sayError("below a file", err)
}

func openMany(p *probe) {
	p.makeFile("f", "content")
	for i := range 100 {
		if got := p.readAt(p.openFD("f", unix.O_RDONLY), 10, 0); got != "content" {
			p.say("descriptor %d reads %q", i, got)
		}
	}
	p.sayError("unlink", unix.Unlink(p.pathOf("f")))
	p.say("done")
}

// An open after a close sees the closed descriptor's changes.
func openAgain(p *probe) {
	for i, s := range []string{"first", "second one", "3rd"} {
		fd, err := unix.Open(p.pathOf("f"), unix.O_CREAT|unix.O_TRUNC|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		p.mustSucceed(err)
		p.writeAt(fd, s, 0)
		p.mustSucceed(unix.Close(fd))
		p.saySize("f")
		p.say("%d: %q", i, p.readAt(p.openFD("f", unix.O_RDONLY), 100, 0))
	}
}

func openReadonlyCreated(p *probe) {
	p.mustSucceed(unix.Chmod(p.dir, 0o777))
	p.runAs(user, group, nil, func() {
		fd, err := unix.Open(p.pathOf("f"), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o444)
		p.sayError("create", err)
		p.mustSucceed(err)
		p.writeAt(fd, "written", 0)
		p.sayError("close", unix.Close(fd))
		p.tryOpen("to write", "f", unix.O_WRONLY)
	})
	p.sayContent("f")
	p.sayMode("f")
}

// A descriptor is valid for any user that holds it.
func openByUser(p *probe) {
	p.makeOwned("f", 0, 0, 0o600)
	fd := p.openFD("f", unix.O_RDWR)
	p.runAs(user, group, nil, func() {
		p.say("read %q", p.readAt(fd, 10, 0))
		p.writeAt(fd, "S", 0)
		p.sayError("sync", unix.Fsync(fd))
		p.sayError("truncate", unix.Ftruncate(fd, 3))
		p.sayError("chmod", unix.Fchmod(fd, 0o666))
		p.tryOpen("open", "f", unix.O_RDONLY)
	})
	p.sayContent("f")
}

func openOffsets(p *probe) {
	p.makeFile("f", "0123456789")
	a, b := p.openFD("f", unix.O_RDONLY), p.openFD("f", unix.O_RDONLY)
	dup, err := unix.FcntlInt(uintptr(a), unix.F_DUPFD_CLOEXEC, 0)
	p.mustSucceed(err)
	defer unix.Close(dup)
	next := func(fd int) string {
		buf := make([]byte, 3)
		n, err := unix.Read(fd, buf)
		p.mustSucceed(err)
		return string(buf[:n])
	}
	p.say("%q %q %q", next(a), next(dup), next(b))
	_, err = unix.Seek(dup, 8, 0)
	p.mustSucceed(err)
	p.say("%q %q %q", next(a), next(a), next(b))
}
