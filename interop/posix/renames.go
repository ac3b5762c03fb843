package posix

import (
	"strings"

	"golang.org/x/sys/unix"
)

var renameCases = []Case{
	{"rename-file", anyone, renameFile},
	{"rename-over-file", anyone, renameOverFile},
	{"rename-over-open", anyone, renameOverOpen},
	{"rename-over-link", anyone, renameOverLink},
	{"rename-dir", anyone, renameDir},
	{"rename-over-dir", anyone, renameOverDir},
	{"rename-kinds", anyone, renameKinds},
	{"rename-itself", anyone, renameItself},
	{"rename-into-itself", anyone, renameIntoItself},
	{"rename-dots", anyone, renameDots},
	{"rename-missing", anyone, renameMissing},
	{"rename-slash", anyone, renameSlash},
	{"rename-symlink", anyone, renameSymlink},
	{"rename-special", anyone, renameSpecial},
	{"rename-open-file", anyone, renameOpenFile},
	{"rename-open-dir", anyone, renameOpenDir},
	{"rename-dotdot", anyone, renameDotDot},
	{"rename-back", anyone, renameBack},
	{"rename-by-user", root, renameByUser},
	{"rename-dir-by-user", root, renameDirByUser},
}

// move renames and notes how that ended.
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

func renameKinds(p *probe) {
	p.file("file", "")
	p.mkdir("dir")
	p.need(unix.Symlink("dir", p.at("symlink")))
	p.move("file", "dir")
	p.move("dir", "file")
	p.move("dir", "symlink")
	p.move("symlink", "dir")
	p.move("file", "symlink")
	p.lists("")
}

// To a name that the object has already, rename does nothing.
func renameItself(p *probe) {
	p.file("a", "x")
	p.mkdir("d")
	p.need(unix.Link(p.at("a"), p.at("b")))
	p.need(unix.Link(p.at("a"), p.at("d/c")))
	p.move("a", "a")
	p.move("d", "d")
	p.move("a", "b")
	p.move("a", "d/c")
	p.links("a")
	p.lists("")
	p.lists("d")
}

func renameIntoItself(p *probe) {
	p.need(unix.Mkdir(p.at("a"), 0o755))
	p.mkdir("a/b")
	p.mkdir("a/b/c")
	p.move("a", "a/new")
	p.move("a", "a/b/new")
	p.move("a", "a/b/c")
	p.move("a/b/c", "a") // its ancestor
	p.move("a/b", "a")
	p.lists("a")
}

func renameDots(p *probe) {
	p.mkdir("a")
	p.file("f", "")
	p.move("a/.", "b")
	p.move("a/..", "b")
	p.move("f", "a/.")
	p.move("f", "a/..")
	p.move("a", ".")
}

func renameMissing(p *probe) {
	p.file("f", "")
	p.mkdir("d")
	p.move("none", "x")
	p.move("none", "f")
	p.move("f", "none/x")
	p.move("none/x", "f")
	p.move("f/x", "y")
	p.move("f", "f/x")
	p.result("no name", unix.Rename("", p.at("x")))
	p.move("f", strings.Repeat("n", 256))
	p.lists("")
}

func renameSlash(p *probe) {
	p.file("f", "")
	p.mkdir("d")
	p.move("f", "g/")
	p.move("f/", "g")
	p.move("d/", "e")
	p.move("e", "d/")
	p.lists("")
}

func renameSymlink(p *probe) {
	p.file("file", "target")
	p.need(unix.Symlink("file", p.at("a")))
	p.move("a", "b")
	p.readlink("b")
	p.file("c", "other")
	p.move("c", "b") // replaces the link, not what it names
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

func renameByUser(p *probe) {
	p.need(unix.Mkdir(p.at("open"), 0o777))
	p.need(unix.Chmod(p.at("open"), 0o777))
	p.mkdir("closed")
	p.file("open/f", "")
	p.file("closed/f", "")
	p.as(user, group, nil, func() {
		p.move("closed/f", "open/g")
		p.move("open/f", "closed/g")
		p.move("open/f", "closed/f")
		p.move("open/f", "open/g")
	})
}

// A directory that moves has to be writable: its entry ".." changes.
func renameDirByUser(p *probe) {
	p.need(unix.Mkdir(p.at("a"), 0o777))
	p.need(unix.Chmod(p.at("a"), 0o777))
	p.need(unix.Mkdir(p.at("b"), 0o777))
	p.need(unix.Chmod(p.at("b"), 0o777))
	p.mkdir("a/roots")
	p.as(user, group, nil, func() {
		p.mkdir("a/mine")
		p.move("a/roots", "b/roots")
		p.move("a/roots", "a/new")
		p.move("a/mine", "b/mine")
	})
}
