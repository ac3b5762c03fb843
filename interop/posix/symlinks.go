package posix

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

var symlinkCases = []Case{
	{"symlink-targets", anyone, symlinkTargets},
	{"symlink-long", anyone, symlinkLong},
	{"symlink-attributes", anyone, symlinkAttributes},
	{"symlink-existing", anyone, symlinkExisting},
	{"symlink-wrong", anyone, symlinkWrong},
	{"symlink-readlink", anyone, symlinkReadlink},
}

// readlink records a symbolic link's target, or its length if the target
// is long.
func (p *probe) readlink(name string) {
	b := make([]byte, 8192)
	n, err := unix.Readlink(p.pathOf(name), b)
	switch {
	case err != nil:
		p.sayError("readlink "+name, err)
	case n > 60:
		p.say("%s has %d bytes", name, n)
	default:
		p.say("%s names %q", name, b[:n])
	}
}

func symlinkTargets(p *probe) {
	for i, target := range []string{"a", "a/../b", "/", "..", "//x//", "with space", "new\nline", "\xff\x80\xc0", "café"} {
		name := fmt.Sprint(i)
		p.sayError("symlink", unix.Symlink(target, p.pathOf(name)))
		p.readlink(name)
		p.saySize(name)
	}
}

func symlinkLong(p *probe) {
	for _, n := range []int{255, 256, 1000, 1023, 1024, 1025, 4000, 4094, 4095, 4096} {
		name := fmt.Sprint(n)
		p.sayError("symlink", unix.Symlink(strings.Repeat("x", n), p.pathOf(name)))
		p.readlink(name)
	}
}

func symlinkAttributes(p *probe) {
	defer unix.Umask(unix.Umask(0o077))
	p.mustSucceed(unix.Symlink("target", p.pathOf("symlink")))
	p.sayMode("symlink")
	p.sayLinks("symlink")
	p.saySize("symlink")
}

func symlinkExisting(p *probe) {
	p.makeFile("file", "x")
	p.makeDir("dir")
	p.mustSucceed(unix.Symlink("none", p.pathOf("dangling")))
	for _, name := range []string{"file", "dir", "dangling", ".", ".."} {
		p.sayError("onto "+name, unix.Symlink("x", p.pathOf(name)))
	}
}

func symlinkWrong(p *probe) {
	p.makeFile("file", "x")
	p.sayError("to nothing", unix.Symlink("", p.pathOf("empty")))
	p.sayError("below nothing", unix.Symlink("x", p.pathOf("none/x")))
	p.sayError("below a file", unix.Symlink("x", p.pathOf("file/x")))
	p.sayError("with a slash behind", unix.Symlink("x", p.pathOf("new/")))
	p.sayEntries("")
}

func symlinkReadlink(p *probe) {
	p.makeFile("file", "")
	p.makeDir("dir")
	p.mustSucceed(unix.Symlink("target", p.pathOf("symlink")))
	for _, name := range []string{"symlink", "file", "dir", "none", "file/x"} {
		p.readlink(name)
	}
	b := make([]byte, 3)
	n, err := unix.Readlink(p.pathOf("symlink"), b)
	p.mustSucceed(err)
	p.say("cut short: %q", b[:n])
}
