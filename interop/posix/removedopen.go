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
	p.file("f", "content")
	fd := p.fd("f", unix.O_RDWR)
	p.result("unlink", unix.Unlink(p.at("f")))
	p.exists("f")
	p.say("read %q", p.read(fd, 20, 0))
	p.say("links %d", p.fstat(fd).Nlink)
}

func unlinkOpenWritten(p *probe) {
	p.file("f", "content")
	fd := p.fd("f", unix.O_RDWR)
	p.need(unix.Unlink(p.at("f")))
	p.write(fd, "more", 100)
	p.result("sync", unix.Fsync(fd))
	p.say("read %q", brief(p.read(fd, 200, 0)))
	p.result("truncate", unix.Ftruncate(fd, 50))
	p.say("size %d", p.fstat(fd).Size)
	p.write(fd, "end", 50)
	p.say("read %q", brief(p.read(fd, 200, 0)))
}

func unlinkOpenAttributes(p *probe) {
	p.file("f", "content")
	fd := p.fd("f", unix.O_RDWR)
	p.need(unix.Unlink(p.at("f")))
	p.result("chmod", unix.Fchmod(fd, 0o640))
	p.say("mode %04o", p.fstat(fd).Mode&permissions)
	p.result("times", unix.Futimes(fd, []unix.Timeval{{Sec: 1}, {Sec: 2}}))
	p.say("mtime %d", p.fstat(fd).Mtim.Sec)
}

func unlinkOpenListed(p *probe) {
	p.file("f", "content")
	fd, err := unix.Open(p.at("f"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	p.need(err)
	p.need(unix.Unlink(p.at("f")))
	p.lists("")
	p.result("close", unix.Close(fd))
	p.await(p.empty)
	p.lists("")
}

func unlinkOpenTwice(p *probe) {
	p.file("f", "content")
	a, b := p.fd("f", unix.O_RDWR), p.fd("f", unix.O_RDONLY)
	p.need(unix.Unlink(p.at("f")))
	p.write(a, "CON", 0)
	p.say("by the other: %q", p.read(b, 20, 0))
	p.say("links %d and %d", p.fstat(a).Nlink, p.fstat(b).Nlink)
}

// A new file with the name of an unlinked open file is a different file.
func unlinkOpenAndAgain(p *probe) {
	p.file("f", "first")
	first := p.fd("f", unix.O_RDWR)
	p.need(unix.Unlink(p.at("f")))
	p.file("f", "second")
	second := p.fd("f", unix.O_RDWR)
	p.need(unix.Unlink(p.at("f")))
	p.file("f", "third")
	p.write(first, "FIRST", 0)
	p.say("%q, %q", p.read(first, 20, 0), p.read(second, 20, 0))
	p.holds("f")
	p.say("different: %v", p.fstat(first).Ino != p.fstat(second).Ino && p.fstat(first).Ino != p.status("f").Ino)
}

func unlinkOpenRmdir(p *probe) {
	p.mkdir("d")
	p.file("d/f", "content")
	fd, err := unix.Open(p.at("d/f"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	p.need(err)
	p.need(unix.Unlink(p.at("d/f")))
	p.result("rmdir", unix.Rmdir(p.at("d")))
	p.say("read %q", p.read(fd, 20, 0))
	p.result("close", unix.Close(fd))
	p.await(func() bool { return unix.Rmdir(p.at("d")) != unix.ENOTEMPTY })
	p.lists("")
}
