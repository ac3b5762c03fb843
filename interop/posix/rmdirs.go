package posix

import "golang.org/x/sys/unix"

var rmdirCases = []Case{
	{"rmdir", anyone, rmdir},
	{"rmdir-wrong", anyone, rmdirWrong},
	{"rmdir-full", anyone, rmdirFull},
	{"rmdir-open", anyone, rmdirOpen},
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

// A removed directory accepts no new entries.
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
