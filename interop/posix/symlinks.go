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
	{"symlink-follow", anyone, symlinkFollow},
	{"symlink-dangling", anyone, symlinkDangling},
	{"symlink-loop", anyone, symlinkLoop},
	{"symlink-chain", anyone, symlinkChain},
	{"symlink-to-dir", anyone, symlinkToDir},
	{"symlink-trailing-slash", anyone, symlinkTrailingSlash},
	{"symlink-readlink", anyone, symlinkReadlink},
	{"symlink-replaced", anyone, symlinkReplaced},
}

// readlink notes what a symbolic link names, or its length if it is long.
func (p *probe) readlink(name string) {
	b := make([]byte, 8192)
	n, err := unix.Readlink(p.at(name), b)
	switch {
	case err != nil:
		p.result("readlink "+name, err)
	case n > 60:
		p.say("%s has %d octets", name, n)
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

func symlinkFollow(p *probe) {
	p.mkdir("dir")
	p.file("dir/file", "content")
	p.need(unix.Symlink("dir", p.at("d")))
	p.need(unix.Symlink("d/file", p.at("f")))
	p.need(unix.Symlink("../f", p.at("dir/up")))
	p.need(unix.Symlink(p.at("dir/file"), p.at("absolute")))
	for _, name := range []string{"d/file", "f", "dir/up", "d/up", "absolute"} {
		p.holds(name)
	}
}

func symlinkDangling(p *probe) {
	p.need(unix.Symlink("none", p.at("dangling")))
	p.try("open", "dangling", unix.O_RDONLY)
	p.exists("dangling")
	p.result("access", unix.Access(p.at("dangling"), unix.F_OK))
	p.try("create only", "dangling", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY)
	p.result("mkdir", unix.Mkdir(p.at("dangling"), 0o755))
	p.try("create", "dangling", unix.O_CREAT|unix.O_WRONLY)
	p.lists("")
	p.result("unlink", unix.Unlink(p.at("dangling")))
	p.lists("")
}

func symlinkLoop(p *probe) {
	p.need(unix.Symlink("self", p.at("self")))
	p.need(unix.Symlink("b", p.at("a")))
	p.need(unix.Symlink("a", p.at("b")))
	for _, name := range []string{"self", "a", "a/x"} {
		p.try("open "+name, name, unix.O_RDONLY)
		p.result("chmod "+name, unix.Chmod(p.at(name), 0o600))
	}
	p.exists("self")
	p.result("rename", unix.Rename(p.at("self"), p.at("other")))
	p.readlink("other")
}

// Linux follows 40 links.
func symlinkChain(p *probe) {
	p.file("0", "end")
	for i := range 41 {
		p.need(unix.Symlink(fmt.Sprint(i), p.at(fmt.Sprint(i+1))))
	}
	p.holds("40")
	p.holds("41")
}

func symlinkToDir(p *probe) {
	p.mkdir("dir")
	p.file("dir/file", "")
	p.need(unix.Symlink("dir", p.at("symlink")))
	p.lists("symlink")
	p.result("rmdir", unix.Rmdir(p.at("symlink")))
	p.result("mkdir", unix.Mkdir(p.at("symlink"), 0o755))
	p.result("mkdir below", unix.Mkdir(p.at("symlink/sub"), 0o755))
	p.result("rename of it", unix.Rename(p.at("symlink"), p.at("other")))
	p.lists("other")
	p.result("unlink", unix.Unlink(p.at("other")))
	p.lists("dir")
}

func symlinkTrailingSlash(p *probe) {
	p.mkdir("dir")
	p.file("file", "")
	p.need(unix.Symlink("dir", p.at("d")))
	p.need(unix.Symlink("file", p.at("f")))
	p.exists("d/")
	p.exists("f/")
	p.say("of what it names: %v", p.status("d/").Mode&unix.S_IFMT == unix.S_IFDIR)
	p.result("unlink", unix.Unlink(p.at("d/")))
	p.result("rmdir", unix.Rmdir(p.at("d/")))
	p.result("rename", unix.Rename(p.at("d/"), p.at("e")))
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

// A link that is replaced by another of the same name is read anew.
func symlinkReplaced(p *probe) {
	p.file("a", "is a")
	p.file("b", "is b")
	p.need(unix.Symlink("a", p.at("symlink")))
	p.holds("symlink")
	p.need(unix.Symlink("b", p.at("new")))
	p.need(unix.Rename(p.at("new"), p.at("symlink")))
	p.holds("symlink")
	p.need(unix.Unlink(p.at("symlink")))
	p.need(unix.Symlink("a", p.at("symlink")))
	p.holds("symlink")
	p.readlink("symlink")
}
