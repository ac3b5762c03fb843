package posix

import (
	"fmt"

	"golang.org/x/sys/unix"
)

var linkCases = []Case{
	{"link-count", anyone, linkCount},
	{"link-content", anyone, linkContent},
	{"link-attributes", anyone, linkAttributes},
	{"link-existing", anyone, linkExisting},
	{"link-wrong", anyone, linkWrong},
	{"link-dir", anyone, linkDir},
	{"link-symlink", anyone, linkSymlink},
	{"link-fifo", anyone, linkFIFO},
	{"link-unlinked", anyone, linkUnlinked},
	{"link-descriptor", root, linkDescriptor},
	{"link-many", anyone, linkMany},
	{"link-other-filesystem", anyone, linkOtherFilesystem},
}

func linkCount(p *probe) {
	p.file("a", "x")
	p.mkdir("d")
	p.links("a")
	p.result("link", unix.Link(p.at("a"), p.at("b")))
	p.result("link in another directory", unix.Link(p.at("b"), p.at("d/c")))
	p.links("a")
	p.links("d/c")
	p.same("a", "d/c")
	p.need(unix.Unlink(p.at("a")))
	p.links("b")
	p.links("d/c")
	p.need(unix.Unlink(p.at("b")))
	p.links("d/c")
	p.holds("d/c")
}

func linkContent(p *probe) {
	p.file("a", "first")
	p.need(unix.Link(p.at("a"), p.at("b")))
	a, b := p.fd("a", unix.O_RDWR), p.fd("b", unix.O_RDWR)
	p.write(a, "SECOND", 0)
	p.say("by the other name: %q", p.read(b, 10, 0))
	p.say("size: %d", p.fstat(b).Size)
	p.write(b, "third", 6)
	p.say("by the first: %q", p.read(a, 20, 0))
}

func linkAttributes(p *probe) {
	p.file("a", "x")
	p.need(unix.Link(p.at("a"), p.at("b")))
	p.need(unix.Chmod(p.at("a"), 0o600))
	p.mode("b")
	p.need(p.set("b", seconds(1), seconds(2)))
	p.times("a")
	p.need(unix.Truncate(p.at("b"), 100))
	p.size("a")
}

func linkExisting(p *probe) {
	p.file("a", "a")
	p.file("b", "b")
	p.mkdir("d")
	p.need(unix.Symlink("none", p.at("dangling")))
	for _, name := range []string{"a", "b", "d", "dangling"} {
		p.result("onto "+name, unix.Link(p.at("a"), p.at(name)))
	}
	p.links("a")
	p.holds("b")
}

func linkWrong(p *probe) {
	p.file("a", "a")
	p.result("of nothing", unix.Link(p.at("none"), p.at("b")))
	p.result("below nothing", unix.Link(p.at("a"), p.at("none/b")))
	p.result("below a file", unix.Link(p.at("a"), p.at("a/b")))
	p.result("with a slash behind", unix.Link(p.at("a"), p.at("b/")))
}

func linkDir(p *probe) {
	p.mkdir("d")
	p.result("link", unix.Link(p.at("d"), p.at("e")))
	p.links("d")
}

func linkSymlink(p *probe) {
	p.file("a", "x")
	p.need(unix.Symlink("a", p.at("symlink")))
	p.result("of the symbolic link", unix.Link(p.at("symlink"), p.at("hard")))
	p.say("is one: %v", p.status("hard").Mode&unix.S_IFMT == unix.S_IFLNK)
	p.links("symlink")
	p.links("a")
	err := unix.Linkat(unix.AT_FDCWD, p.at("symlink"), unix.AT_FDCWD, p.at("followed"), unix.AT_SYMLINK_FOLLOW)
	p.result("of what it names", err)
	p.same("a", "followed")
	p.links("a")
}

func linkFIFO(p *probe) {
	p.need(unix.Mkfifo(p.at("fifo"), 0o600))
	p.result("link", unix.Link(p.at("fifo"), p.at("other")))
	p.links("fifo")
	p.same("fifo", "other")
}

// A file without a name cannot get a name again.
func linkUnlinked(p *probe) {
	p.file("a", "x")
	fd := p.fd("a", unix.O_RDWR)
	p.need(unix.Unlink(p.at("a")))
	err := unix.Linkat(unix.AT_FDCWD, procFD(fd), unix.AT_FDCWD, p.at("b"), unix.AT_SYMLINK_FOLLOW)
	p.result("link", err)
	p.lists("")
}

// procFD returns the name of a descriptor in /proc, by any thread's table.
func procFD(fd int) string { return fmt.Sprintf("/proc/thread-self/fd/%d", fd) }

func linkDescriptor(p *probe) {
	p.file("a", "x")
	fd := p.fd("a", unix.O_RDWR)
	p.result("link", unix.Linkat(fd, "", unix.AT_FDCWD, p.at("b"), unix.AT_EMPTY_PATH))
	p.same("a", "b")
}

func linkMany(p *probe) {
	const count = 50
	p.file("a", "x")
	for i := range count {
		p.need(unix.Link(p.at("a"), p.at(fmt.Sprintf("%02d", i))))
	}
	p.links("a")
	p.links("49")
}

// Links between two file systems are impossible. (/proc accepts no new names,
// so that nothing can remain there.)
func linkOtherFilesystem(p *probe) {
	p.file("a", "x")
	p.result("link", unix.Link(p.at("a"), "/proc/self/link"))
	p.result("rename", unix.Rename(p.at("a"), "/proc/self/link"))
	p.result("rename here", unix.Rename("/proc/self/status", p.at("b")))
	p.lists("")
}
