package posix

import "golang.org/x/sys/unix"

var ownerCases = []Case{
	{"owner-new", root, ownerNew},
	{"chown-file", root, chownFile},
	{"chown-symlink", root, chownSymlink},
	{"chown-descriptor", root, chownDescriptor},
	{"chown-large", root, chownLarge},
	{"chown-by-user", root, chownByUser},
	{"chown-clears-suid", root, chownClearsSUID},
	{"chown-dir-keeps-setgid", root, chownDirKeepsSetgid},
	{"write-clears-suid", root, writeClearsSUID},
	{"write-by-root-keeps-suid", root, writeByRootKeepsSUID},
	{"truncate-clears-suid", root, truncateClearsSUID},
	{"setgid-dir", root, setgidDir},
	{"setgid-dir-foreign", root, setgidDirForeign},
}

func ownerNew(p *probe) {
	p.mustSucceed(unix.Chmod(p.dir, 0o777))
	p.runAs(user, group, []uint32{otherGroup}, func() {
		p.createFile("file", 0o644)
		p.makeDir("dir")
		p.mustSucceed(unix.Symlink("x", p.pathOf("symlink")))
		p.mustSucceed(unix.Mkfifo(p.pathOf("fifo"), 0o600))
	})
	for _, name := range []string{"file", "dir", "symlink", "fifo"} {
		p.sayOwner(name)
	}
}

func chownFile(p *probe) {
	p.makeFile("file", "")
	for _, o := range [][2]int{{user, group}, {0, otherGroup}, {7, -1}, {-1, 8}, {-1, -1}} {
		p.sayError("chown", unix.Chown(p.pathOf("file"), o[0], o[1]))
		p.sayOwner("file")
	}
	p.sayError("missing", unix.Chown(p.pathOf("none"), 1, 1))
}

func chownSymlink(p *probe) {
	p.makeFile("file", "")
	p.mustSucceed(unix.Symlink("file", p.pathOf("symlink")))
	p.sayError("chown", unix.Chown(p.pathOf("symlink"), 5, 6))
	p.sayError("lchown", unix.Lchown(p.pathOf("symlink"), 7, 8))
	p.sayOwner("file")
	p.sayOwner("symlink")
}

func chownDescriptor(p *probe) {
	p.makeFile("file", "")
	p.sayError("fchown", unix.Fchown(p.openFD("file", unix.O_RDONLY), 9, 10))
	p.sayOwner("file")
}

func chownLarge(p *probe) {
	p.makeFile("file", "")
	for _, id := range []int{65534, 65536, 1<<31 - 1, 1<<32 - 2} {
		p.sayError("chown", unix.Chown(p.pathOf("file"), id, id))
		p.sayOwner("file")
	}
}

func chownByUser(p *probe) {
	p.makeFile("mine", "")
	p.makeFile("yours", "")
	p.mustSucceed(unix.Chown(p.pathOf("mine"), user, group))
	p.runAs(user, group, []uint32{otherGroup}, func() {
		p.sayError("away", unix.Chown(p.pathOf("mine"), otherUser, -1))
		p.sayError("to another group", unix.Chown(p.pathOf("mine"), -1, 1234))
		p.sayError("to one's own group", unix.Chown(p.pathOf("mine"), -1, otherGroup))
		p.sayError("to oneself", unix.Chown(p.pathOf("mine"), user, group))
		p.sayError("another's", unix.Chown(p.pathOf("yours"), user, -1))
		p.sayError("nothing of another's", unix.Chown(p.pathOf("yours"), -1, -1))
	})
	p.sayOwner("mine")
	p.sayOwner("yours")
}

func chownClearsSUID(p *probe) {
	for _, mode := range []uint32{0o4755, 0o2755, 0o6755, 0o2745} {
		p.makeFile("file", "")
		p.mustSucceed(unix.Chmod(p.pathOf("file"), mode))
		p.mustSucceed(unix.Chown(p.pathOf("file"), user, group))
		p.sayMode("file")
		p.mustSucceed(unix.Unlink(p.pathOf("file")))
	}
	p.makeFile("mine", "")
	p.mustSucceed(unix.Chown(p.pathOf("mine"), user, group))
	p.mustSucceed(unix.Chmod(p.pathOf("mine"), 0o6755))
	p.runAs(user, group, []uint32{otherGroup}, func() {
		p.sayError("by its owner", unix.Chown(p.pathOf("mine"), -1, otherGroup))
	})
	p.sayMode("mine")
}

func chownDirKeepsSetgid(p *probe) {
	p.makeDir("dir")
	p.mustSucceed(unix.Chmod(p.pathOf("dir"), 0o2775))
	p.mustSucceed(unix.Chown(p.pathOf("dir"), user, group))
	p.sayMode("dir")
}

// makeSUID makes a file with all three special bits, writable for all.
func (p *probe) makeSUID(mode uint32) {
	p.makeFile("file", "content")
	p.mustSucceed(unix.Chmod(p.pathOf("file"), mode))
}

func writeClearsSUID(p *probe) {
	for _, mode := range []uint32{0o4777, 0o2777, 0o6777, 0o2767} {
		p.makeSUID(mode)
		p.runAs(user, group, nil, func() {
			fd := p.openFD("file", unix.O_WRONLY)
			p.writeAt(fd, "C", 0)
			p.mustSucceed(unix.Fsync(fd))
		})
		p.sayMode("file")
		p.mustSucceed(unix.Unlink(p.pathOf("file")))
	}
}

func writeByRootKeepsSUID(p *probe) {
	p.makeSUID(0o6755)
	fd := p.openFD("file", unix.O_WRONLY)
	p.writeAt(fd, "C", 0)
	p.mustSucceed(unix.Fsync(fd))
	p.sayMode("file")
}

func truncateClearsSUID(p *probe) {
	p.makeSUID(0o6777)
	p.runAs(user, group, nil, func() { p.sayError("truncate", unix.Truncate(p.pathOf("file"), 3)) })
	p.sayMode("file")
	p.mustSucceed(unix.Chmod(p.pathOf("file"), 0o6777))
	p.runAs(user, group, nil, func() { p.tryOpen("open", "file", unix.O_WRONLY|unix.O_TRUNC) })
	p.sayMode("file")
}

func setgidDir(p *probe) {
	p.makeDir("dir")
	p.mustSucceed(unix.Chown(p.pathOf("dir"), user, otherGroup))
	p.mustSucceed(unix.Chmod(p.pathOf("dir"), 0o2777))
	p.runAs(user, group, []uint32{otherGroup}, func() {
		p.createFile("dir/file", 0o640)
		p.makeDir("dir/sub")
		p.makeDir("dir/sub/sub")
		p.mustSucceed(unix.Symlink("x", p.pathOf("dir/symlink")))
	})
	for _, name := range []string{"dir/file", "dir/sub", "dir/sub/sub", "dir/symlink"} {
		p.sayOwner(name)
		p.sayMode(name)
	}
}

// A user outside the directory's group cannot make set-group-ID files in it.
func setgidDirForeign(p *probe) {
	p.makeDir("dir")
	p.mustSucceed(unix.Chown(p.pathOf("dir"), 0, otherGroup))
	p.mustSucceed(unix.Chmod(p.pathOf("dir"), 0o2777))
	p.runAs(user, group, nil, func() {
		p.createFile("dir/file", 0o755)
		p.makeDir("dir/sub")
	})
	for _, name := range []string{"dir/file", "dir/sub"} {
		p.sayOwner(name)
		p.sayMode(name)
	}
}
