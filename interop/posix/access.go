package posix

import (
	"fmt"

	"golang.org/x/sys/unix"
)

var accessCases = []Case{
	{"access-root", root, accessRoot},
	{"access-classes", root, accessClasses},
	{"access-call", root, accessCall},
	{"access-groups", root, accessGroups},
	{"access-many-groups", root, accessManyGroups},
	{"access-search", root, accessSearch},
	{"access-list", root, accessList},
	{"access-create", root, accessCreate},
	{"access-owner-of-nothing", root, accessOwnerOfNothing},
	{"access-truncate", root, accessTruncate},
	{"access-truncate-own", root, accessTruncateOwn},
	{"access-missing", anyone, accessMissing},
	{"sticky-dir", root, stickyDir},
	{"sticky-rename", root, stickyRename},
}

// of makes a file with an owner and a mode.
func (p *probe) of(name string, uid, gid int, mode uint32) {
	p.file(name, "secret")
	p.need(unix.Chown(p.at(name), uid, gid))
	p.need(unix.Chmod(p.at(name), mode))
}

func accessRoot(p *probe) {
	p.of("closed", user, group, 0)
	p.try("open", "closed", unix.O_RDWR)
	for _, mode := range []uint32{unix.R_OK, unix.W_OK, unix.X_OK} {
		p.result(fmt.Sprintf("access %d", mode), unix.Access(p.at("closed"), mode))
	}
	p.need(unix.Chmod(p.at("closed"), 0o010))
	p.result("access 1 with one x", unix.Access(p.at("closed"), unix.X_OK))
}

// The first match of owner, group and others decides.
func accessClasses(p *probe) {
	p.of("owner", user, group, 0o077)
	p.of("group", 0, group, 0o707)
	p.of("other", 0, otherGroup, 0o770)
	p.of("mine", user, group, 0o600)
	p.of("ours", 0, group, 0o060)
	p.of("all", 0, otherGroup, 0o006)
	p.of("readable", 0, otherGroup, 0o004)
	p.as(user, group, nil, func() {
		for _, name := range []string{"owner", "group", "other", "mine", "ours", "all", "readable"} {
			p.try("read "+name, name, unix.O_RDONLY)
			p.try("write "+name, name, unix.O_WRONLY)
		}
	})
}

func accessCall(p *probe) {
	for mode := range uint32(8) {
		p.of(fmt.Sprintf("%d", mode), user, group, mode<<6)
	}
	p.as(user, group, nil, func() {
		for mode := range 8 {
			name := fmt.Sprintf("%d", mode)
			p.say("mode %d: r %s w %s x %s", mode, word(unix.Access(p.at(name), unix.R_OK)),
				word(unix.Access(p.at(name), unix.W_OK)), word(unix.Access(p.at(name), unix.X_OK)))
		}
	})
}

func accessGroups(p *probe) {
	p.of("file", 0, otherGroup, 0o640)
	p.as(user, group, nil, func() { p.try("not in it", "file", unix.O_RDONLY) })
	p.as(user, group, []uint32{3, otherGroup}, func() {
		p.try("in it", "file", unix.O_RDONLY)
		p.try("in it, to write", "file", unix.O_WRONLY)
	})
	p.as(user, otherGroup, nil, func() { p.try("as the first", "file", unix.O_RDONLY) })
}

// AUTH_SYS has room for 16 groups; the kernel sends the lowest first.
func accessManyGroups(p *probe) {
	p.of("file", 0, otherGroup, 0o640)
	var groups []uint32
	for g := range uint32(15) {
		groups = append(groups, 500+g)
	}
	p.as(user, group, append(groups, otherGroup), func() { p.try("the 16th", "file", unix.O_RDONLY) })
	groups = append(groups, 600, 601)
	p.as(user, group, append(groups, otherGroup), func() { p.try("the 18th", "file", unix.O_RDONLY) })
}

func accessSearch(p *probe) {
	for name, mode := range map[string]uint32{"closed": 0o700, "through": 0o711, "listed": 0o744} {
		p.mkdir(name)
		p.file(name+"/file", "below")
		p.need(unix.Chmod(p.at(name), mode))
	}
	p.as(user, group, nil, func() {
		for _, name := range []string{"closed", "through", "listed"} {
			// A mount may still have cached the entries below.
			p.await(func() bool { return name == "through" || unix.Access(p.at(name+"/file"), unix.F_OK) != nil })
			p.try("open below "+name, name+"/file", unix.O_RDONLY)
			p.exists(name + "/file")
			p.exists(name + "/none")
		}
	})
}

func accessList(p *probe) {
	p.mkdir("through")
	p.need(unix.Chmod(p.at("through"), 0o711))
	p.mkdir("listed")
	p.file("listed/a", "")
	p.need(unix.Chmod(p.at("listed"), 0o744))
	p.as(user, group, nil, func() {
		p.try("open through", "through", unix.O_RDONLY|unix.O_DIRECTORY)
		p.say("%q", sorted(p.all(p.fd("listed", unix.O_RDONLY|unix.O_DIRECTORY))))
	})
}

func accessCreate(p *probe) {
	p.mkdir("dir")
	p.of("dir/file", user, group, 0o644) // owned by the user: the administrator's settings decide about links to other users' files
	p.as(user, group, nil, func() {
		p.try("create", "dir/new", unix.O_CREAT|unix.O_WRONLY)
		p.try("create what exists", "dir/file", unix.O_CREAT|unix.O_RDONLY)
		p.result("mkdir", unix.Mkdir(p.at("dir/new"), 0o755))
		p.result("mkdir what exists", unix.Mkdir(p.at("dir/file"), 0o755))
		p.result("symlink", unix.Symlink("x", p.at("dir/new")))
		p.result("mkfifo", unix.Mkfifo(p.at("dir/new"), 0o600))
		p.result("unlink", unix.Unlink(p.at("dir/file")))
		p.result("rename", unix.Rename(p.at("dir/file"), p.at("dir/new")))
		p.result("link", unix.Link(p.at("dir/file"), p.at("dir/new")))
	})
}

// The creator of a file without permission for its owner has the file open.
func accessOwnerOfNothing(p *probe) {
	p.need(unix.Chmod(p.dir, 0o777))
	p.as(user, group, nil, func() {
		fd, err := unix.Open(p.at("file"), unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0)
		p.result("create", err)
		p.need(err)
		_, err = unix.Write(fd, []byte("content"))
		p.result("write", err)
		p.result("sync", unix.Fsync(fd))
		p.say("read %q", p.read(fd, 10, 0))
		p.result("close", unix.Close(fd))
		p.try("open again", "file", unix.O_RDONLY)
	})
	p.holds("file")
}

func accessTruncate(p *probe) {
	p.of("file", 0, otherGroup, 0o644)
	p.as(user, group, nil, func() {
		p.result("truncate", unix.Truncate(p.at("file"), 1))
		p.try("open with O_TRUNC", "file", unix.O_RDONLY|unix.O_TRUNC)
	})
	p.holds("file")
}

// A file's owner can truncate it by a writable descriptor, but not by its name.
func accessTruncateOwn(p *probe) {
	p.need(unix.Chmod(p.dir, 0o777))
	p.of("file", user, group, 0o444)
	p.as(user, group, nil, func() {
		p.result("truncate", unix.Truncate(p.at("file"), 1))
		p.try("open with O_TRUNC", "file", unix.O_WRONLY|unix.O_TRUNC)
		fd, err := unix.Open(p.at("new"), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o444)
		p.need(err)
		p.result("ftruncate", unix.Ftruncate(fd, 1))
		p.need(unix.Close(fd))
		p.result("truncate", unix.Truncate(p.at("new"), 2))
	})
	p.holds("file")
	p.size("new")
}

func accessMissing(p *probe) {
	p.file("file", "")
	p.result("none", unix.Access(p.at("none"), unix.F_OK))
	p.result("below a file", unix.Access(p.at("file/x"), unix.F_OK))
	p.result("wrong mode", unix.Access(p.at("file"), 0o10))
}

// In a sticky directory, only owners remove.
func stickyDir(p *probe) {
	p.mkdir("dir")
	p.need(unix.Chmod(p.at("dir"), 0o1777))
	p.of("dir/mine", user, group, 0o666)
	p.of("dir/yours", otherUser, group, 0o666)
	p.need(unix.Mkdir(p.at("dir/sub"), 0o777))
	p.as(user, group, nil, func() {
		p.result("own", unix.Unlink(p.at("dir/mine")))
		p.result("another's", unix.Unlink(p.at("dir/yours")))
		p.result("another's directory", unix.Rmdir(p.at("dir/sub")))
	})
	p.need(unix.Chown(p.at("dir"), user, group))
	p.as(user, group, nil, func() {
		p.result("another's, in one's own directory", unix.Unlink(p.at("dir/yours")))
	})
}

func stickyRename(p *probe) {
	p.mkdir("dir")
	p.need(unix.Chmod(p.at("dir"), 0o1777))
	p.of("dir/mine", user, group, 0o666)
	p.of("dir/yours", otherUser, group, 0o666)
	p.as(user, group, nil, func() {
		p.result("another's away", unix.Rename(p.at("dir/yours"), p.at("dir/new")))
		p.result("over another's", unix.Rename(p.at("dir/mine"), p.at("dir/yours")))
		p.result("own", unix.Rename(p.at("dir/mine"), p.at("dir/new")))
	})
}
