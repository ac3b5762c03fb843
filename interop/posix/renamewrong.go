package posix

import (
	"strings"

	"golang.org/x/sys/unix"
)

var renameWrongCases = []Case{
	{"rename-kinds", anyone, renameKinds},
	{"rename-itself", anyone, renameItself},
	{"rename-into-itself", anyone, renameIntoItself},
	{"rename-dots", anyone, renameDots},
	{"rename-missing", anyone, renameMissing},
	{"rename-slash", anyone, renameSlash},
	{"rename-by-user", root, renameByUser},
	{"rename-dir-by-user", root, renameDirByUser},
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

// A rename to another name of the same object does nothing.
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

// A moved directory must be writable, because its entry ".." changes.
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
