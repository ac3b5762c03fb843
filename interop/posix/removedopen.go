package posix

import "golang.org/x/sys/unix"

var removedOpenCases = []Case{
	{"unlink-open", anyone, unlinkOpen},
	{"unlink-open-written", anyone, unlinkOpenWritten},
	{"unlink-open-attributes", anyone, unlinkOpenAttributes},
	{"unlink-open-listed", anyone, unlinkOpenListed},
	{"unlink-open-twice", anyone, unlinkOpenTwice},
	{"unlink-open-and-again", anyone, unlinkOpenAndAgain},
	{"unlink-open-rmdir", anyone, unlinkOpenRmdir},
}

func unlinkOpen(p *probe) {
	p.makeFile("f", "content")
	fd := p.openFD("f", unix.O_RDWR)
	p.sayError("unlink", unix.Unlink(p.pathOf("f")))
	p.sayExists("f")
	p.say("read %q", p.readAt(fd, 20, 0))
	p.say("links %d", p.fstat(fd).Nlink)
}

func unlinkOpenWritten(p *probe) {
	p.makeFile("f", "content")
	fd := p.openFD("f", unix.O_RDWR)
	p.mustSucceed(unix.Unlink(p.pathOf("f")))
	p.writeAt(fd, "more", 100)
	p.sayError("sync", unix.Fsync(fd))
	p.say("read %q", showBytes(p.readAt(fd, 200, 0)))
	p.sayError("truncate", unix.Ftruncate(fd, 50))
	p.say("size %d", p.fstat(fd).Size)
	p.writeAt(fd, "end", 50)
	p.say("read %q", showBytes(p.readAt(fd, 200, 0)))
}

func unlinkOpenAttributes(p *probe) {
	p.makeFile("f", "content")
	fd := p.openFD("f", unix.O_RDWR)
	p.mustSucceed(unix.Unlink(p.pathOf("f")))
	p.sayError("chmod", unix.Fchmod(fd, 0o640))
	p.say("mode %04o", p.fstat(fd).Mode&permissions)
	p.sayError("times", unix.Futimes(fd, []unix.Timeval{{Sec: 1}, {Sec: 2}}))
	p.say("mtime %d", p.fstat(fd).Mtim.Sec)
}

func unlinkOpenListed(p *probe) {
	p.makeFile("f", "content")
	fd, err := unix.Open(p.pathOf("f"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	p.mustSucceed(err)
	p.mustSucceed(unix.Unlink(p.pathOf("f")))
	p.sayEntries("")
	p.sayError("close", unix.Close(fd))
	p.awaitTrue(p.isEmpty)
	p.sayEntries("")
}

func unlinkOpenTwice(p *probe) {
	p.makeFile("f", "content")
	a, b := p.openFD("f", unix.O_RDWR), p.openFD("f", unix.O_RDONLY)
	p.mustSucceed(unix.Unlink(p.pathOf("f")))
	p.writeAt(a, "CON", 0)
	p.say("by the other: %q", p.readAt(b, 20, 0))
	p.say("links %d and %d", p.fstat(a).Nlink, p.fstat(b).Nlink)
}

// A new file with an unlinked open file's name is a different file.
func unlinkOpenAndAgain(p *probe) {
	p.makeFile("f", "first")
	first := p.openFD("f", unix.O_RDWR)
	p.mustSucceed(unix.Unlink(p.pathOf("f")))
	p.makeFile("f", "second")
	second := p.openFD("f", unix.O_RDWR)
	p.mustSucceed(unix.Unlink(p.pathOf("f")))
	p.makeFile("f", "third")
	p.writeAt(first, "FIRST", 0)
	p.say("%q, %q", p.readAt(first, 20, 0), p.readAt(second, 20, 0))
	p.sayContent("f")
	p.say("different: %v", p.fstat(first).Ino != p.fstat(second).Ino && p.fstat(first).Ino != p.lstat("f").Ino)
}

func unlinkOpenRmdir(p *probe) {
	p.makeDir("d")
	p.makeFile("d/f", "content")
	fd, err := unix.Open(p.pathOf("d/f"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	p.mustSucceed(err)
	p.mustSucceed(unix.Unlink(p.pathOf("d/f")))
	p.sayError("rmdir", unix.Rmdir(p.pathOf("d")))
	p.say("read %q", p.readAt(fd, 20, 0))
	p.sayError("close", unix.Close(fd))
	p.awaitTrue(func() bool { return unix.Rmdir(p.pathOf("d")) != unix.ENOTEMPTY })
	p.sayEntries("")
}
