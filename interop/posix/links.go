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
	p.makeFile("a", "x")
	p.makeDir("d")
	p.sayLinks("a")
	p.sayError("link", unix.Link(p.pathOf("a"), p.pathOf("b")))
	p.sayError("link in another directory", unix.Link(p.pathOf("b"), p.pathOf("d/c")))
	p.sayLinks("a")
	p.sayLinks("d/c")
	p.saySame("a", "d/c")
	p.mustSucceed(unix.Unlink(p.pathOf("a")))
	p.sayLinks("b")
	p.sayLinks("d/c")
	p.mustSucceed(unix.Unlink(p.pathOf("b")))
	p.sayLinks("d/c")
	p.sayContent("d/c")
}

func linkContent(p *probe) {
	p.makeFile("a", "first")
	p.mustSucceed(unix.Link(p.pathOf("a"), p.pathOf("b")))
	a, b := p.openFD("a", unix.O_RDWR), p.openFD("b", unix.O_RDWR)
	p.writeAt(a, "SECOND", 0)
	p.say("by the other name: %q", p.readAt(b, 10, 0))
	p.say("size: %d", p.fstat(b).Size)
	p.writeAt(b, "third", 6)
	p.say("by the first: %q", p.readAt(a, 20, 0))
}

func linkAttributes(p *probe) {
	p.makeFile("a", "x")
	p.mustSucceed(unix.Link(p.pathOf("a"), p.pathOf("b")))
	p.mustSucceed(unix.Chmod(p.pathOf("a"), 0o600))
	p.sayMode("b")
	p.mustSucceed(p.set("b", seconds(1), seconds(2)))
	p.times("a")
	p.mustSucceed(unix.Truncate(p.pathOf("b"), 100))
	p.saySize("a")
}

func linkExisting(p *probe) {
	p.makeFile("a", "a")
	p.makeFile("b", "b")
	p.makeDir("d")
	p.mustSucceed(unix.Symlink("none", p.pathOf("dangling")))
	for _, name := range []string{"a", "b", "d", "dangling"} {
		p.sayError("onto "+name, unix.Link(p.pathOf("a"), p.pathOf(name)))
	}
	p.sayLinks("a")
	p.sayContent("b")
}

func linkWrong(p *probe) {
	p.makeFile("a", "a")
	p.sayError("of nothing", unix.Link(p.pathOf("none"), p.pathOf("b")))
	p.sayError("below nothing", unix.Link(p.pathOf("a"), p.pathOf("none/b")))
	p.sayError("below a file", unix.Link(p.pathOf("a"), p.pathOf("a/b")))
	p.sayError("with a slash behind", unix.Link(p.pathOf("a"), p.pathOf("b/")))
}

func linkDir(p *probe) {
	p.makeDir("d")
	p.sayError("link", unix.Link(p.pathOf("d"), p.pathOf("e")))
	p.sayLinks("d")
}

func linkSymlink(p *probe) {
	p.makeFile("a", "x")
	p.mustSucceed(unix.Symlink("a", p.pathOf("symlink")))
	p.sayError("of the symbolic link", unix.Link(p.pathOf("symlink"), p.pathOf("hard")))
	p.say("is one: %v", p.lstat("hard").Mode&unix.S_IFMT == unix.S_IFLNK)
	p.sayLinks("symlink")
	p.sayLinks("a")
	err := unix.Linkat(unix.AT_FDCWD, p.pathOf("symlink"), unix.AT_FDCWD, p.pathOf("followed"), unix.AT_SYMLINK_FOLLOW)
	p.sayError("of what it names", err)
	p.saySame("a", "followed")
	p.sayLinks("a")
}

func linkFIFO(p *probe) {
	p.mustSucceed(unix.Mkfifo(p.pathOf("fifo"), 0o600))
	p.sayError("link", unix.Link(p.pathOf("fifo"), p.pathOf("other")))
	p.sayLinks("fifo")
	p.saySame("fifo", "other")
}

// A file without a name cannot get a name again.
func linkUnlinked(p *probe) {
	p.makeFile("a", "x")
	fd := p.openFD("a", unix.O_RDWR)
	p.mustSucceed(unix.Unlink(p.pathOf("a")))
	err := unix.Linkat(unix.AT_FDCWD, procFD(fd), unix.AT_FDCWD, p.pathOf("b"), unix.AT_SYMLINK_FOLLOW)
	p.sayError("link", err)
	p.sayEntries("")
}

// procFD returns a descriptor's name in /proc, which any thread can use.
func procFD(fd int) string { return fmt.Sprintf("/proc/thread-self/fd/%d", fd) }

func linkDescriptor(p *probe) {
	p.makeFile("a", "x")
	fd := p.openFD("a", unix.O_RDWR)
	p.sayError("link", unix.Linkat(fd, "", unix.AT_FDCWD, p.pathOf("b"), unix.AT_EMPTY_PATH))
	p.saySame("a", "b")
}

func linkMany(p *probe) {
	const count = 50
	p.makeFile("a", "x")
	for i := range count {
		p.mustSucceed(unix.Link(p.pathOf("a"), p.pathOf(fmt.Sprintf("%02d", i))))
	}
	p.sayLinks("a")
	p.sayLinks("49")
}

// Links between two file systems are impossible. (/proc accepts no new names,
// so that nothing can remain there.)
func linkOtherFilesystem(p *probe) {
	p.makeFile("a", "x")
	p.sayError("link", unix.Link(p.pathOf("a"), "/proc/self/link"))
	p.sayError("rename", unix.Rename(p.pathOf("a"), "/proc/self/link"))
	p.sayError("rename here", unix.Rename("/proc/self/status", p.pathOf("b")))
	p.sayEntries("")
}
