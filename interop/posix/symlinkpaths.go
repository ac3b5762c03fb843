package posix

import (
	"fmt"

	"golang.org/x/sys/unix"
)

var symlinkPathCases = []Case{
	{"symlink-follow", anyone, symlinkFollow},
	{"symlink-dangling", anyone, symlinkDangling},
	{"symlink-loop", anyone, symlinkLoop},
	{"symlink-chain", anyone, symlinkChain},
	{"symlink-to-dir", anyone, symlinkToDir},
	{"symlink-trailing-slash", anyone, symlinkTrailingSlash},
	{"symlink-replaced", anyone, symlinkReplaced},
}

func symlinkFollow(p *probe) {
	p.makeDir("dir")
	p.makeFile("dir/file", "content")
	p.mustSucceed(unix.Symlink("dir", p.pathOf("d")))
	p.mustSucceed(unix.Symlink("d/file", p.pathOf("f")))
	p.mustSucceed(unix.Symlink("../f", p.pathOf("dir/up")))
	p.mustSucceed(unix.Symlink(p.pathOf("dir/file"), p.pathOf("absolute")))
	for _, name := range []string{"d/file", "f", "dir/up", "d/up", "absolute"} {
		p.sayContent(name)
	}
}

func symlinkDangling(p *probe) {
	p.mustSucceed(unix.Symlink("none", p.pathOf("dangling")))
	p.tryOpen("open", "dangling", unix.O_RDONLY)
	p.sayExists("dangling")
	p.sayError("access", unix.Access(p.pathOf("dangling"), unix.F_OK))
	p.tryOpen("create only", "dangling", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY)
	p.sayError("mkdir", unix.Mkdir(p.pathOf("dangling"), 0o755))
	p.tryOpen("create", "dangling", unix.O_CREAT|unix.O_WRONLY)
	p.sayEntries("")
	p.sayError("unlink", unix.Unlink(p.pathOf("dangling")))
	p.sayEntries("")
}

func symlinkLoop(p *probe) {
	p.mustSucceed(unix.Symlink("self", p.pathOf("self")))
	p.mustSucceed(unix.Symlink("b", p.pathOf("a")))
	p.mustSucceed(unix.Symlink("a", p.pathOf("b")))
	for _, name := range []string{"self", "a", "a/x"} {
		p.tryOpen("open "+name, name, unix.O_RDONLY)
		p.sayError("chmod "+name, unix.Chmod(p.pathOf(name), 0o600))
	}
	p.sayExists("self")
	p.sayError("rename", unix.Rename(p.pathOf("self"), p.pathOf("other")))
	p.readlink("other")
}

// Linux follows 40 links.
func symlinkChain(p *probe) {
	p.makeFile("0", "end")
	for i := range 41 {
		p.mustSucceed(unix.Symlink(fmt.Sprint(i), p.pathOf(fmt.Sprint(i+1))))
	}
	p.sayContent("40")
	p.sayContent("41")
}

func symlinkToDir(p *probe) {
	p.makeDir("dir")
	p.makeFile("dir/file", "")
	p.mustSucceed(unix.Symlink("dir", p.pathOf("symlink")))
	p.sayEntries("symlink")
	p.sayError("rmdir", unix.Rmdir(p.pathOf("symlink")))
	p.sayError("mkdir", unix.Mkdir(p.pathOf("symlink"), 0o755))
	p.sayError("mkdir below", unix.Mkdir(p.pathOf("symlink/sub"), 0o755))
	p.sayError("rename of it", unix.Rename(p.pathOf("symlink"), p.pathOf("other")))
	p.sayEntries("other")
	p.sayError("unlink", unix.Unlink(p.pathOf("other")))
	p.sayEntries("dir")
}

func symlinkTrailingSlash(p *probe) {
	p.makeDir("dir")
	p.makeFile("file", "")
	p.mustSucceed(unix.Symlink("dir", p.pathOf("d")))
	p.mustSucceed(unix.Symlink("file", p.pathOf("f")))
	p.sayExists("d/")
	p.sayExists("f/")
	p.say("of what it names: %v", p.lstat("d/").Mode&unix.S_IFMT == unix.S_IFDIR)
	p.sayError("unlink", unix.Unlink(p.pathOf("d/")))
	p.sayError("rmdir", unix.Rmdir(p.pathOf("d/")))
	p.sayError("rename", unix.Rename(p.pathOf("d/"), p.pathOf("e")))
}

// A link replaced by another link with the same name is read again.
func symlinkReplaced(p *probe) {
	p.makeFile("a", "is a")
	p.makeFile("b", "is b")
	p.mustSucceed(unix.Symlink("a", p.pathOf("symlink")))
	p.sayContent("symlink")
	p.mustSucceed(unix.Symlink("b", p.pathOf("new")))
	p.mustSucceed(unix.Rename(p.pathOf("new"), p.pathOf("symlink")))
	p.sayContent("symlink")
	p.mustSucceed(unix.Unlink(p.pathOf("symlink")))
	p.mustSucceed(unix.Symlink("a", p.pathOf("symlink")))
	p.sayContent("symlink")
	p.readlink("symlink")
}
