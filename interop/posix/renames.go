package posix

import "golang.org/x/sys/unix"

var renameCases = []Case{
	{"rename-file", anyone, renameFile},
	{"rename-over-file", anyone, renameOverFile},
	{"rename-over-open", anyone, renameOverOpen},
	{"rename-over-link", anyone, renameOverLink},
	{"rename-dir", anyone, renameDir},
	{"rename-over-dir", anyone, renameOverDir},
	{"rename-symlink", anyone, renameSymlink},
	{"rename-special", anyone, renameSpecial},
	{"rename-open-file", anyone, renameOpenFile},
	{"rename-open-dir", anyone, renameOpenDir},
	{"rename-dotdot", anyone, renameDotDot},
	{"rename-back", anyone, renameBack},
}

// move renames and records the result.
func (p *probe) move(from, to string) {
	p.sayError(showPath(from)+" to "+showPath(to), unix.Rename(p.pathOf(from), p.pathOf(to)))
}

func renameFile(p *probe) {
	p.makeFile("a", "content")
	p.makeDir("d")
	ino := p.lstat("a").Ino
	p.move("a", "b")
	p.sayEntries("")
	p.move("b", "d/c")
	p.sayEntries("")
	p.sayEntries("d")
	p.sayContent("d/c")
	p.say("the same object: %v", p.lstat("d/c").Ino == ino)
	p.sayExists("a")
	p.sayExists("b")
}

func renameOverFile(p *probe) {
	p.makeFile("a", "new")
	p.makeFile("b", "old")
	p.sayExists("b")
	p.move("a", "b")
	p.sayContent("b")
	p.sayExists("a")
	p.sayLinks("b")
	p.sayEntries("")
}

func renameOverOpen(p *probe) {
	p.makeFile("a", "new")
	p.makeFile("b", "old")
	fd := p.openFD("b", unix.O_RDWR)
	p.move("a", "b")
	p.say("what is open: %q", p.readAt(fd, 10, 0))
	p.writeAt(fd, "OLD+", 0)
	p.mustSucceed(unix.Fsync(fd))
	p.say("and written: %q", p.readAt(fd, 10, 0))
	p.say("size %d, links %d", p.fstat(fd).Size, p.fstat(fd).Nlink)
	p.sayContent("b")
	p.sayEntries("")
}

func renameOverLink(p *probe) {
	p.makeFile("a", "new")
	p.makeFile("b", "old")
	p.mustSucceed(unix.Link(p.pathOf("b"), p.pathOf("c")))
	p.move("a", "b")
	p.sayLinks("c")
	p.sayContent("c")
	p.sayContent("b")
}

func renameDir(p *probe) {
	p.makeDir("a")
	p.makeDir("a/sub")
	p.makeFile("a/sub/file", "deep")
	p.makeDir("d")
	p.sayLinks(".")
	p.move("a", "b")
	p.sayContent("b/sub/file")
	p.sayExists("a/sub/file")
	p.move("b", "d/c")
	p.sayContent("d/c/sub/file")
	p.sayLinks(".")
	p.sayLinks("d")
	p.sayLinks("d/c")
}

func renameOverDir(p *probe) {
	p.makeDir("a")
	p.makeFile("a/file", "x")
	p.makeDir("empty")
	p.makeDir("full")
	p.makeFile("full/y", "y")
	p.move("a", "full")
	p.move("a", "empty")
	p.sayEntries("")
	p.sayEntries("empty")
	p.sayLinks(".")
}

func renameSymlink(p *probe) {
	p.makeFile("file", "target")
	p.mustSucceed(unix.Symlink("file", p.pathOf("a")))
	p.move("a", "b")
	p.readlink("b")
	p.makeFile("c", "other")
	p.move("c", "b") // replaces the link, not its target
	p.sayContent("file")
	p.sayContent("b")
	p.sayExists("a")
}

func renameSpecial(p *probe) {
	p.mustSucceed(unix.Mkfifo(p.pathOf("fifo"), 0o600))
	p.makeFile("file", "")
	p.move("fifo", "other")
	p.move("other", "file")
	p.say("a pipe: %v", p.lstat("file").Mode&unix.S_IFMT == unix.S_IFIFO)
	p.sayEntries("")
}

func renameOpenFile(p *probe) {
	p.makeFile("a", "content")
	p.makeDir("d")
	fd := p.openFD("a", unix.O_RDWR)
	p.move("a", "d/b")
	p.writeAt(fd, "C", 0)
	p.say("read %q", p.readAt(fd, 10, 0))
	p.mustSucceed(unix.Ftruncate(fd, 4))
	p.mustSucceed(unix.Fchmod(fd, 0o640))
	p.mustSucceed(unix.Fsync(fd))
	p.sayContent("d/b")
	p.sayMode("d/b")
}

func renameOpenDir(p *probe) {
	p.makeDir("a")
	p.makeFile("a/one", "1")
	fd := p.openFD("a", unix.O_RDONLY|unix.O_DIRECTORY)
	p.move("a", "b")
	p.say("%q", entryNames(p.readAllEntries(fd)))
	f, err := unix.Openat(fd, "two", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	p.sayError("create in it", err)
	p.mustSucceed(err)
	p.mustSucceed(unix.Close(f))
	p.sayEntries("b")
	p.sayError("unlink in it", unix.Unlinkat(fd, "one", 0))
	p.sayEntries("b")
}

func renameDotDot(p *probe) {
	p.makeDir("a")
	p.makeDir("b")
	p.makeDir("a/sub")
	p.saySame("a/sub/..", "a")
	p.move("a/sub", "b/sub")
	p.saySame("b/sub/..", "b")
}

func renameBack(p *probe) {
	p.makeFile("a", "first")
	p.move("a", "b")
	p.makeFile("a", "second")
	p.sayContent("a")
	p.sayContent("b")
	p.move("a", "c")
	p.move("b", "a")
	p.sayContent("a")
	p.sayContent("c")
	p.sayExists("b")
}
