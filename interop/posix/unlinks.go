package posix

import (
	"golang.org/x/sys/unix"
)

var unlinkCases = []Case{
	{"unlink-file", anyone, unlinkFile},
	{"unlink-wrong", anyone, unlinkWrong},
	{"unlink-open", anyone, unlinkOpen},
	{"unlink-open-written", anyone, unlinkOpenWritten},
	{"unlink-open-attributes", anyone, unlinkOpenAttributes},
	{"unlink-open-listed", anyone, unlinkOpenListed},
	{"unlink-open-twice", anyone, unlinkOpenTwice},
	{"unlink-open-and-again", anyone, unlinkOpenAndAgain},
	{"unlink-open-rmdir", anyone, unlinkOpenRmdir},
	{"unlink-link", anyone, unlinkLink},
	{"unlink-by-user", root, unlinkByUser},
	{"unlink-readonly", anyone, unlinkReadonly},
	{"rmdir", anyone, rmdir},
	{"rmdir-wrong", anyone, rmdirWrong},
	{"rmdir-full", anyone, rmdirFull},
	{"rmdir-open", anyone, rmdirOpen},
}

func unlinkFile(p *probe) {
	p.file("f", "x")
	p.result("unlink", unix.Unlink(p.at("f")))
	p.exists("f")
	p.result("again", unix.Unlink(p.at("f")))
	p.lists("")
}

func unlinkWrong(p *probe) {
	p.file("f", "x")
	p.mkdir("d")
	p.result("missing", unix.Unlink(p.at("none")))
	p.result("below nothing", unix.Unlink(p.at("none/x")))
	p.result("below a file", unix.Unlink(p.at("f/x")))
	p.result("a directory", unix.Unlink(p.at("d")))
	p.result("with a slash", unix.Unlink(p.at("f/")))
	p.result("a directory with a slash", unix.Unlink(p.at("d/")))
	p.result("dot", unix.Unlink(p.at("d/.")))
	p.lists("")
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
	p.await(func() bool { return len(sorted(p.all(p.self()))) == 0 })
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

// A new file of the name of one that is open but unlinked is another.
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

// await returns when something is so: a file may take a moment to go after the
// close.
func (p *probe) await(f func() bool) {
	for range 1000 {
		if f() {
			return
		}
		p.tick()
	}
}

func unlinkLink(p *probe) {
	p.file("a", "content")
	p.need(unix.Link(p.at("a"), p.at("b")))
	fd := p.fd("a", unix.O_RDWR)
	p.need(unix.Unlink(p.at("a")))
	p.write(fd, "CON", 0)
	p.need(unix.Fsync(fd))
	p.say("links %d", p.fstat(fd).Nlink)
	p.holds("b")
	p.lists("")
}

func unlinkByUser(p *probe) {
	p.mkdir("closed")
	p.file("closed/f", "")
	p.need(unix.Mkdir(p.at("open"), 0o777))
	p.need(unix.Chmod(p.at("open"), 0o777))
	p.of("open/f", 0, 0, 0)
	p.as(user, group, nil, func() {
		p.result("where one may not write", unix.Unlink(p.at("closed/f")))
		p.result("where one may", unix.Unlink(p.at("open/f")))
	})
}

func unlinkReadonly(p *probe) {
	p.file("f", "")
	p.need(unix.Chmod(p.at("f"), 0))
	p.result("unlink", unix.Unlink(p.at("f")))
	p.lists("")
}

func rmdir(p *probe) {
	p.mkdir("d")
	p.links(".")
	p.result("rmdir", unix.Rmdir(p.at("d")))
	p.exists("d")
	p.links(".")
	p.result("again", unix.Rmdir(p.at("d")))
	p.mkdir("d")
	p.result("with a slash", unix.Rmdir(p.at("d/")))
	p.lists("")
}

func rmdirWrong(p *probe) {
	p.file("f", "")
	p.mkdir("d")
	p.mkdir("d/e")
	p.result("a file", unix.Rmdir(p.at("f")))
	p.result("below a file", unix.Rmdir(p.at("f/x")))
	p.result("dot", unix.Rmdir(p.at("d/e/.")))
	p.result("dot dot", unix.Rmdir(p.at("d/e/..")))
	p.result("missing", unix.Rmdir(p.at("none")))
}

func rmdirFull(p *probe) {
	p.mkdir("d")
	p.file("d/f", "")
	p.result("with a file", unix.Rmdir(p.at("d")))
	p.need(unix.Unlink(p.at("d/f")))
	p.mkdir("d/e")
	p.result("with a directory", unix.Rmdir(p.at("d")))
	p.need(unix.Rmdir(p.at("d/e")))
	p.result("empty again", unix.Rmdir(p.at("d")))
}

// A directory that is gone takes nothing more.
func rmdirOpen(p *probe) {
	p.mkdir("d")
	fd := p.fd("d", unix.O_RDONLY|unix.O_DIRECTORY)
	p.result("rmdir", unix.Rmdir(p.at("d")))
	_, err := unix.Openat(fd, "new", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	p.result("create in it", err)
	p.result("mkdir in it", unix.Mkdirat(fd, "new", 0o755))
	p.mkdir("d")
	p.file("d/f", "")
	_, err = unix.Openat(fd, "f", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	p.result("open what the next has", err)
}
