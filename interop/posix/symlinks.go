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

// readlink records the target of a symbolic link, or its length if the target
// is long.
func (p *probe) readlink(name string) {
	b := make([]byte, 8192)
	n, err := unix.Readlink(p.at(name), b)
	switch {
	case err != nil:
		p.result("readlink "+name, err)
	case n > 60:
		p.say("%s has %d bytes", name, n)
	default:
		p.say("%s names %q", name, b[:n])
	}
}

func symlinkTargets(p *probe) {
	for i, target := range []string{"a", "a/../b", "/", "..", "//x//", "with space", "new\nline", "\xff\x80\xc0", "café"} {
		name := fmt.Sprint(i)
		p.result("symlink", unix.Symlink(target, p.at(name)))
		p.readlink(name)
		p.size(name)
	}
}

func symlinkLong(p *probe) {
	for _, n := range []int{255, 256, 1000, 1023, 1024, 1025, 4000, 4094, 4095, 4096} {
		name := fmt.Sprint(n)
		p.result("symlink", unix.Symlink(strings.Repeat("x", n), p.at(name)))
		p.readlink(name)
	}
}

func symlinkAttributes(p *probe) {
	defer unix.Umask(unix.Umask(0o077))
	p.need(unix.Symlink("target", p.at("symlink")))
	p.mode("symlink")
	p.links("symlink")
	p.size("symlink")
}

func symlinkExisting(p *probe) {
	p.file("file", "x")
	p.mkdir("dir")
	p.need(unix.Symlink("none", p.at("dangling")))
	for _, name := range []string{"file", "dir", "dangling", ".", ".."} {
		p.result("onto "+name, unix.Symlink("x", p.at(name)))
	}
}

func symlinkWrong(p *probe) {
	p.file("file", "x")
	p.result("to nothing", unix.Symlink("", p.at("empty")))
	p.result("below nothing", unix.Symlink("x", p.at("none/x")))
	p.result("below a file", unix.Symlink("x", p.at("file/x")))
	p.result("with a slash behind", unix.Symlink("x", p.at("new/")))
	p.lists("")
}

func symlinkReadlink(p *probe) {
	p.file("file", "")
	p.mkdir("dir")
	p.need(unix.Symlink("target", p.at("symlink")))
	for _, name := range []string{"symlink", "file", "dir", "none", "file/x"} {
		p.readlink(name)
	}
	b := make([]byte, 3)
	n, err := unix.Readlink(p.at("symlink"), b)
	p.need(err)
	p.say("cut short: %q", b[:n])
}
