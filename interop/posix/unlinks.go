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
	p.makeFile("f", "x")
	p.sayError("unlink", unix.Unlink(p.pathOf("f")))
	p.sayExists("f")
	p.sayError("again", unix.Unlink(p.pathOf("f")))
	p.sayEntries("")
}

func unlinkWrong(p *probe) {
	p.makeFile("f", "x")
	p.makeDir("d")
	p.sayError("missing", unix.Unlink(p.pathOf("none")))
	p.sayError("below nothing", unix.Unlink(p.pathOf("none/x")))
	p.sayError("below a file", unix.Unlink(p.pathOf("f/x")))
	p.sayError("a directory", unix.Unlink(p.pathOf("d")))
	p.sayError("with a slash", unix.Unlink(p.pathOf("f/")))
	p.sayError("a directory with a slash", unix.Unlink(p.pathOf("d/")))
	p.sayError("dot", unix.Unlink(p.pathOf("d/.")))
	p.sayEntries("")
}

func unlinkLink(p *probe) {
	p.makeFile("a", "content")
	p.mustSucceed(unix.Link(p.pathOf("a"), p.pathOf("b")))
	fd := p.openFD("a", unix.O_RDWR)
	p.mustSucceed(unix.Unlink(p.pathOf("a")))
	p.writeAt(fd, "CON", 0)
	p.mustSucceed(unix.Fsync(fd))
	p.say("links %d", p.fstat(fd).Nlink)
	p.sayContent("b")
	p.sayEntries("")
}

func unlinkByUser(p *probe) {
	p.makeDir("closed")
	p.makeFile("closed/f", "")
	p.mustSucceed(unix.Mkdir(p.pathOf("open"), 0o777))
	p.mustSucceed(unix.Chmod(p.pathOf("open"), 0o777))
	p.makeOwned("open/f", 0, 0, 0)
	p.runAs(user, group, nil, func() {
		p.sayError("where one may not write", unix.Unlink(p.pathOf("closed/f")))
		p.sayError("where one may", unix.Unlink(p.pathOf("open/f")))
	})
}

func unlinkReadonly(p *probe) {
	p.makeFile("f", "")
	p.mustSucceed(unix.Chmod(p.pathOf("f"), 0))
	p.sayError("unlink", unix.Unlink(p.pathOf("f")))
	p.sayEntries("")
}
