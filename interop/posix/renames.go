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
	p.result(show(from)+" to "+show(to), unix.Rename(p.at(from), p.at(to)))
}

func renameFile(p *probe) {
	p.file("a", "content")
	p.mkdir("d")
	ino := p.status("a").Ino
	p.move("a", "b")
	p.lists("")
	p.move("b", "d/c")
	p.lists("")
	p.lists("d")
	p.holds("d/c")
	p.say("the same object: %v", p.status("d/c").Ino == ino)
	p.exists("a")
	p.exists("b")
}

func renameOverFile(p *probe) {
	p.file("a", "new")
	p.file("b", "old")
	p.exists("b")
	p.move("a", "b")
	p.holds("b")
	p.exists("a")
	p.links("b")
	p.lists("")
}

func renameOverOpen(p *probe) {
	p.file("a", "new")
	p.file("b", "old")
	fd := p.fd("b", unix.O_RDWR)
	p.move("a", "b")
	p.say("what is open: %q", p.read(fd, 10, 0))
	p.write(fd, "OLD+", 0)
	p.need(unix.Fsync(fd))
	p.say("and written: %q", p.read(fd, 10, 0))
	p.say("size %d, links %d", p.fstat(fd).Size, p.fstat(fd).Nlink)
	p.holds("b")
	p.lists("")
}

func renameOverLink(p *probe) {
	p.file("a", "new")
	p.file("b", "old")
	p.need(unix.Link(p.at("b"), p.at("c")))
	p.move("a", "b")
	p.links("c")
	p.holds("c")
	p.holds("b")
}

func renameDir(p *probe) {
	p.mkdir("a")
	p.mkdir("a/sub")
	p.file("a/sub/file", "deep")
	p.mkdir("d")
	p.links(".")
	p.move("a", "b")
	p.holds("b/sub/file")
	p.exists("a/sub/file")
	p.move("b", "d/c")
	p.holds("d/c/sub/file")
	p.links(".")
	p.links("d")
	p.links("d/c")
}

func renameOverDir(p *probe) {
	p.mkdir("a")
	p.file("a/file", "x")
	p.mkdir("empty")
	p.mkdir("full")
	p.file("full/y", "y")
	p.move("a", "full")
	p.move("a", "empty")
	p.lists("")
	p.lists("empty")
	p.links(".")
}

func renameSymlink(p *probe) {
	p.file("file", "target")
	p.need(unix.Symlink("file", p.at("a")))
	p.move("a", "b")
	p.readlink("b")
	p.file("c", "other")
	p.move("c", "b") // replaces the link, not its target
	p.holds("file")
	p.holds("b")
	p.exists("a")
}

func renameSpecial(p *probe) {
	p.need(unix.Mkfifo(p.at("fifo"), 0o600))
	p.file("file", "")
	p.move("fifo", "other")
	p.move("other", "file")
	p.say("a pipe: %v", p.status("file").Mode&unix.S_IFMT == unix.S_IFIFO)
	p.lists("")
}

func renameOpenFile(p *probe) {
	p.file("a", "content")
	p.mkdir("d")
	fd := p.fd("a", unix.O_RDWR)
	p.move("a", "d/b")
	p.write(fd, "C", 0)
	p.say("read %q", p.read(fd, 10, 0))
	p.need(unix.Ftruncate(fd, 4))
	p.need(unix.Fchmod(fd, 0o640))
	p.need(unix.Fsync(fd))
	p.holds("d/b")
	p.mode("d/b")
}

func renameOpenDir(p *probe) {
	p.mkdir("a")
	p.file("a/one", "1")
	fd := p.fd("a", unix.O_RDONLY|unix.O_DIRECTORY)
	p.move("a", "b")
	p.say("%q", sorted(p.all(fd)))
	f, err := unix.Openat(fd, "two", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	p.result("create in it", err)
	p.need(err)
	p.need(unix.Close(f))
	p.lists("b")
	p.result("unlink in it", unix.Unlinkat(fd, "one", 0))
	p.lists("b")
}

func renameDotDot(p *probe) {
	p.mkdir("a")
	p.mkdir("b")
	p.mkdir("a/sub")
	p.same("a/sub/..", "a")
	p.move("a/sub", "b/sub")
	p.same("b/sub/..", "b")
}

func renameBack(p *probe) {
	p.file("a", "first")
	p.move("a", "b")
	p.file("a", "second")
	p.holds("a")
	p.holds("b")
	p.move("a", "c")
	p.move("b", "a")
	p.holds("a")
	p.holds("c")
	p.exists("b")
}
