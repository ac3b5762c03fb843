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
	p.makeFile("file", "")
	p.makeDir("dir")
	p.mustSucceed(unix.Symlink("dir", p.pathOf("symlink")))
	p.move("file", "dir")
	p.move("dir", "file")
	p.move("dir", "symlink")
	p.move("symlink", "dir")
	p.move("file", "symlink")
	p.sayEntries("")
}

// A rename to another name for the same object does nothing.
func renameItself(p *probe) {
	p.makeFile("a", "x")
	p.makeDir("d")
	p.mustSucceed(unix.Link(p.pathOf("a"), p.pathOf("b")))
	p.mustSucceed(unix.Link(p.pathOf("a"), p.pathOf("d/c")))
	p.move("a", "a")
	p.move("d", "d")
	p.move("a", "b")
	p.move("a", "d/c")
	p.sayLinks("a")
	p.sayEntries("")
	p.sayEntries("d")
}

func renameIntoItself(p *probe) {
	p.mustSucceed(unix.Mkdir(p.pathOf("a"), 0o755))
	p.makeDir("a/b")
	p.makeDir("a/b/c")
	p.move("a", "a/new")
	p.move("a", "a/b/new")
	p.move("a", "a/b/c")
	p.move("a/b/c", "a") // its ancestor
	p.move("a/b", "a")
	p.sayEntries("a")
}

func renameDots(p *probe) {
	p.makeDir("a")
	p.makeFile("f", "")
	p.move("a/.", "b")
	p.move("a/..", "b")
	p.move("f", "a/.")
	p.move("f", "a/..")
	p.move("a", ".")
}

func renameMissing(p *probe) {
	p.makeFile("f", "")
	p.makeDir("d")
	p.move("none", "x")
	p.move("none", "f")
	p.move("f", "none/x")
	p.move("none/x", "f")
	p.move("f/x", "y")
	p.move("f", "f/x")
	p.sayError("no name", unix.Rename("", p.pathOf("x")))
	p.move("f", strings.Repeat("n", 256))
	p.sayEntries("")
}

func renameSlash(p *probe) {
	p.makeFile("f", "")
	p.makeDir("d")
	p.move("f", "g/")
	p.move("f/", "g")
	p.move("d/", "e")
	p.move("e", "d/")
	p.sayEntries("")
}

func renameByUser(p *probe) {
	p.mustSucceed(unix.Mkdir(p.pathOf("open"), 0o777))
	p.mustSucceed(unix.Chmod(p.pathOf("open"), 0o777))
	p.makeDir("closed")
	p.makeFile("open/f", "")
	p.makeFile("closed/f", "")
	p.runAs(user, group, nil, func() {
		p.move("closed/f", "open/g")
		p.move("open/f", "closed/g")
		p.move("open/f", "closed/f")
		p.move("open/f", "open/g")
	})
}

// A moved directory must be writable, because its entry ".." changes.
func renameDirByUser(p *probe) {
	p.mustSucceed(unix.Mkdir(p.pathOf("a"), 0o777))
	p.mustSucceed(unix.Chmod(p.pathOf("a"), 0o777))
	p.mustSucceed(unix.Mkdir(p.pathOf("b"), 0o777))
	p.mustSucceed(unix.Chmod(p.pathOf("b"), 0o777))
	p.makeDir("a/roots")
	p.runAs(user, group, nil, func() {
		p.makeDir("a/mine")
		p.move("a/roots", "b/roots")
		p.move("a/roots", "a/new")
		p.move("a/mine", "b/mine")
	})
}
