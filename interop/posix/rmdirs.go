package posix

import "golang.org/x/sys/unix"

var rmdirCases = []Case{
	{"rmdir", anyone, rmdir},
	{"rmdir-wrong", anyone, rmdirWrong},
	{"rmdir-full", anyone, rmdirFull},
	{"rmdir-open", anyone, rmdirOpen},
}

func rmdir(p *probe) {
	p.makeDir("d")
	p.sayLinks(".")
	p.sayError("rmdir", unix.Rmdir(p.pathOf("d")))
	p.sayExists("d")
	p.sayLinks(".")
	p.sayError("again", unix.Rmdir(p.pathOf("d")))
	p.makeDir("d")
	p.sayError("with a slash", unix.Rmdir(p.pathOf("d/")))
	p.sayEntries("")
}

func rmdirWrong(p *probe) {
	p.makeFile("f", "")
	p.makeDir("d")
	p.makeDir("d/e")
	p.sayError("a file", unix.Rmdir(p.pathOf("f")))
	p.sayError("below a file", unix.Rmdir(p.pathOf("f/x")))
	p.sayError("dot", unix.Rmdir(p.pathOf("d/e/.")))
	p.sayError("dot dot", unix.Rmdir(p.pathOf("d/e/..")))
	p.sayError("missing", unix.Rmdir(p.pathOf("none")))
}

func rmdirFull(p *probe) {
	p.makeDir("d")
	p.makeFile("d/f", "")
	p.sayError("with a file", unix.Rmdir(p.pathOf("d")))
	p.mustSucceed(unix.Unlink(p.pathOf("d/f")))
	p.makeDir("d/e")
	p.sayError("with a directory", unix.Rmdir(p.pathOf("d")))
	p.mustSucceed(unix.Rmdir(p.pathOf("d/e")))
	p.sayError("empty again", unix.Rmdir(p.pathOf("d")))
}

// A removed directory accepts no new entries.
func rmdirOpen(p *probe) {
	p.makeDir("d")
	fd := p.openFD("d", unix.O_RDONLY|unix.O_DIRECTORY)
	p.sayError("rmdir", unix.Rmdir(p.pathOf("d")))
	_, err := unix.Openat(fd, "new", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	p.sayError("create in it", err)
	p.sayError("mkdir in it", unix.Mkdirat(fd, "new", 0o755))
	p.makeDir("d")
	p.makeFile("d/f", "")
	_, err = unix.Openat(fd, "f", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	p.sayError("open what the next has", err)
}
