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
	p.need(unix.Chmod(p.dir, 0o777))
	p.as(user, group, []uint32{otherGroup}, func() {
		p.create("file", 0o644)
		p.mkdir("dir")
		p.need(unix.Symlink("x", p.at("symlink")))
		p.need(unix.Mkfifo(p.at("fifo"), 0o600))
	})
	for _, name := range []string{"file", "dir", "symlink", "fifo"} {
		p.owner(name)
	}
}

func chownFile(p *probe) {
	p.file("file", "")
	for _, o := range [][2]int{{user, group}, {0, otherGroup}, {7, -1}, {-1, 8}, {-1, -1}} {
		p.result("chown", unix.Chown(p.at("file"), o[0], o[1]))
		p.owner("file")
	}
	p.result("missing", unix.Chown(p.at("none"), 1, 1))
}

func chownSymlink(p *probe) {
	p.file("file", "")
	p.need(unix.Symlink("file", p.at("symlink")))
	p.result("chown", unix.Chown(p.at("symlink"), 5, 6))
	p.result("lchown", unix.Lchown(p.at("symlink"), 7, 8))
	p.owner("file")
	p.owner("symlink")
}

func chownDescriptor(p *probe) {
	p.file("file", "")
	p.result("fchown", unix.Fchown(p.fd("file", unix.O_RDONLY), 9, 10))
	p.owner("file")
}

func chownLarge(p *probe) {
	p.file("file", "")
	for _, id := range []int{65534, 65536, 1<<31 - 1, 1<<32 - 2} {
		p.result("chown", unix.Chown(p.at("file"), id, id))
		p.owner("file")
	}
}

func chownByUser(p *probe) {
	p.file("mine", "")
	p.file("yours", "")
	p.need(unix.Chown(p.at("mine"), user, group))
	p.as(user, group, []uint32{otherGroup}, func() {
		p.result("away", unix.Chown(p.at("mine"), otherUser, -1))
		p.result("to another group", unix.Chown(p.at("mine"), -1, 1234))
		p.result("to one's own group", unix.Chown(p.at("mine"), -1, otherGroup))
		p.result("to oneself", unix.Chown(p.at("mine"), user, group))
		p.result("another's", unix.Chown(p.at("yours"), user, -1))
		p.result("nothing of another's", unix.Chown(p.at("yours"), -1, -1))
	})
	p.owner("mine")
	p.owner("yours")
}

func chownClearsSUID(p *probe) {
	for _, mode := range []uint32{0o4755, 0o2755, 0o6755, 0o2745} {
		p.file("file", "")
		p.need(unix.Chmod(p.at("file"), mode))
		p.need(unix.Chown(p.at("file"), user, group))
		p.mode("file")
		p.need(unix.Unlink(p.at("file")))
	}
	p.file("mine", "")
	p.need(unix.Chown(p.at("mine"), user, group))
	p.need(unix.Chmod(p.at("mine"), 0o6755))
	p.as(user, group, []uint32{otherGroup}, func() {
		p.result("by its owner", unix.Chown(p.at("mine"), -1, otherGroup))
	})
	p.mode("mine")
}

func chownDirKeepsSetgid(p *probe) {
	p.mkdir("dir")
	p.need(unix.Chmod(p.at("dir"), 0o2775))
	p.need(unix.Chown(p.at("dir"), user, group))
	p.mode("dir")
}

// suid makes a file with all three special bits, writable for all.
func (p *probe) suid(mode uint32) {
	p.file("file", "content")
	p.need(unix.Chmod(p.at("file"), mode))
}

func writeClearsSUID(p *probe) {
	for _, mode := range []uint32{0o4777, 0o2777, 0o6777, 0o2767} {
		p.suid(mode)
		p.as(user, group, nil, func() {
			fd := p.fd("file", unix.O_WRONLY)
			p.write(fd, "C", 0)
			p.need(unix.Fsync(fd))
		})
		p.mode("file")
		p.need(unix.Unlink(p.at("file")))
	}
}

func writeByRootKeepsSUID(p *probe) {
	p.suid(0o6755)
	fd := p.fd("file", unix.O_WRONLY)
	p.write(fd, "C", 0)
	p.need(unix.Fsync(fd))
	p.mode("file")
}

func truncateClearsSUID(p *probe) {
	p.suid(0o6777)
	p.as(user, group, nil, func() { p.result("truncate", unix.Truncate(p.at("file"), 3)) })
	p.mode("file")
	p.need(unix.Chmod(p.at("file"), 0o6777))
	p.as(user, group, nil, func() { p.try("open", "file", unix.O_WRONLY|unix.O_TRUNC) })
	p.mode("file")
}

func setgidDir(p *probe) {
	p.mkdir("dir")
	p.need(unix.Chown(p.at("dir"), user, otherGroup))
	p.need(unix.Chmod(p.at("dir"), 0o2777))
	p.as(user, group, []uint32{otherGroup}, func() {
		p.create("dir/file", 0o640)
		p.mkdir("dir/sub")
		p.mkdir("dir/sub/sub")
		p.need(unix.Symlink("x", p.at("dir/symlink")))
	})
	for _, name := range []string{"dir/file", "dir/sub", "dir/sub/sub", "dir/symlink"} {
		p.owner(name)
		p.mode(name)
	}
}

// A user outside the directory's group cannot make set-group-ID files in it.
func setgidDirForeign(p *probe) {
	p.mkdir("dir")
	p.need(unix.Chown(p.at("dir"), 0, otherGroup))
	p.need(unix.Chmod(p.at("dir"), 0o2777))
	p.as(user, group, nil, func() {
		p.create("dir/file", 0o755)
		p.mkdir("dir/sub")
	})
	for _, name := range []string{"dir/file", "dir/sub"} {
		p.owner(name)
		p.mode(name)
	}
}
