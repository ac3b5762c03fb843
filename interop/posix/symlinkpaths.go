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

// A link replaced by another link of the same name is read anew.
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
