package posix

import "golang.org/x/sys/unix"

var unlinkCases = []Case{
	{"unlink-file", anyone, unlinkFile},
	{"unlink-wrong", anyone, unlinkWrong},
	{"unlink-link", anyone, unlinkLink},
	{"unlink-by-user", root, unlinkByUser},
	{"unlink-readonly", anyone, unlinkReadonly},
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
