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

// makeOwned creates a file with an owner and a mode.
func (p *probe) makeOwned(name string, uid, gid int, mode uint32) {
	p.makeFile(name, "secret")
	p.mustSucceed(unix.Chown(p.pathOf(name), uid, gid))
	p.mustSucceed(unix.Chmod(p.pathOf(name), mode))
}

func accessRoot(p *probe) {
	p.makeOwned("closed", user, group, 0)
	p.tryOpen("open", "closed", unix.O_RDWR)
	for _, mode := range []uint32{unix.R_OK, unix.W_OK, unix.X_OK} {
		p.sayError(fmt.Sprintf("access %d", mode), unix.Access(p.pathOf("closed"), mode))
	}
	p.mustSucceed(unix.Chmod(p.pathOf("closed"), 0o010))
	p.sayError("access 1 with one x", unix.Access(p.pathOf("closed"), unix.X_OK))
}

// The first matching class, owner, group or others, decides.
func accessClasses(p *probe) {
	p.makeOwned("owner", user, group, 0o077)
	p.makeOwned("group", 0, group, 0o707)
	p.makeOwned("other", 0, otherGroup, 0o770)
	p.makeOwned("mine", user, group, 0o600)
	p.makeOwned("ours", 0, group, 0o060)
	p.makeOwned("all", 0, otherGroup, 0o006)
	p.makeOwned("readable", 0, otherGroup, 0o004)
	p.runAs(user, group, nil, func() {
		for _, name := range []string{"owner", "group", "other", "mine", "ours", "all", "readable"} {
			p.tryOpen("read "+name, name, unix.O_RDONLY)
			p.tryOpen("write "+name, name, unix.O_WRONLY)
		}
	})
}

func accessCall(p *probe) {
	for mode := range uint32(8) {
		p.makeOwned(fmt.Sprintf("%d", mode), user, group, mode<<6)
	}
	p.runAs(user, group, nil, func() {
		for mode := range 8 {
			name := fmt.Sprintf("%d", mode)
			p.say("mode %d: r %s w %s x %s", mode, errorName(unix.Access(p.pathOf(name), unix.R_OK)),
				errorName(unix.Access(p.pathOf(name), unix.W_OK)), errorName(unix.Access(p.pathOf(name), unix.X_OK)))
		}
	})
}

func accessGroups(p *probe) {
	p.makeOwned("file", 0, otherGroup, 0o640)
	p.runAs(user, group, nil, func() { p.tryOpen("not in it", "file", unix.O_RDONLY) })
	p.runAs(user, group, []uint32{3, otherGroup}, func() {
		p.tryOpen("in it", "file", unix.O_RDONLY)
		p.tryOpen("in it, to write", "file", unix.O_WRONLY)
	})
	p.runAs(user, otherGroup, nil, func() { p.tryOpen("as the first", "file", unix.O_RDONLY) })
}

// AUTH_SYS has room for 16 groups; the kernel sends the lowest first.
func accessManyGroups(p *probe) {
	p.makeOwned("file", 0, otherGroup, 0o640)
	var groups []uint32
	for g := range uint32(15) {
		groups = append(groups, 500+g)
	}
	p.runAs(user, group, append(groups, otherGroup), func() { p.tryOpen("the 16th", "file", unix.O_RDONLY) })
	groups = append(groups, 600, 601)
	p.runAs(user, group, append(groups, otherGroup), func() { p.tryOpen("the 18th", "file", unix.O_RDONLY) })
}

func accessSearch(p *probe) {
	for name, mode := range map[string]uint32{"closed": 0o700, "through": 0o711, "listed": 0o744} {
		p.makeDir(name)
		p.makeFile(name+"/file", "below")
		p.mustSucceed(unix.Chmod(p.pathOf(name), mode))
	}
	p.runAs(user, group, nil, func() {
		for _, name := range []string{"closed", "through", "listed"} {
			// A mount may still have cached the entries below.
			p.awaitTrue(func() bool { return name == "through" || unix.Access(p.pathOf(name+"/file"), unix.F_OK) != nil })
			p.tryOpen("open below "+name, name+"/file", unix.O_RDONLY)
			p.sayExists(name + "/file")
			p.sayExists(name + "/none")
		}
	})
}

func accessList(p *probe) {
	p.makeDir("through")
	p.mustSucceed(unix.Chmod(p.pathOf("through"), 0o711))
	p.makeDir("listed")
	p.makeFile("listed/a", "")
	p.mustSucceed(unix.Chmod(p.pathOf("listed"), 0o744))
	p.runAs(user, group, nil, func() {
		p.tryOpen("open through", "through", unix.O_RDONLY|unix.O_DIRECTORY)
		p.say("%q", entryNames(p.readAllEntries(p.openFD("listed", unix.O_RDONLY|unix.O_DIRECTORY))))
	})
}

func accessCreate(p *probe) {
	p.makeDir("dir")
	p.makeOwned("dir/file", user, group, 0o644) // owned by the user: the administrator's settings decide about links to other users' files
	p.runAs(user, group, nil, func() {
		p.tryOpen("create", "dir/new", unix.O_CREAT|unix.O_WRONLY)
		p.tryOpen("create what exists", "dir/file", unix.O_CREAT|unix.O_RDONLY)
		p.sayError("mkdir", unix.Mkdir(p.pathOf("dir/new"), 0o755))
		p.sayError("mkdir what exists", unix.Mkdir(p.pathOf("dir/file"), 0o755))
		p.sayError("symlink", unix.Symlink("x", p.pathOf("dir/new")))
		p.sayError("mkfifo", unix.Mkfifo(p.pathOf("dir/new"), 0o600))
		p.sayError("unlink", unix.Unlink(p.pathOf("dir/file")))
		p.sayError("rename", unix.Rename(p.pathOf("dir/file"), p.pathOf("dir/new")))
		p.sayError("link", unix.Link(p.pathOf("dir/file"), p.pathOf("dir/new")))
	})
}

// The creator has the file open even if the mode denies the owner access.
func accessOwnerOfNothing(p *probe) {
	p.mustSucceed(unix.Chmod(p.dir, 0o777))
	p.runAs(user, group, nil, func() {
		fd, err := unix.Open(p.pathOf("file"), unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0)
		p.sayError("create", err)
		p.mustSucceed(err)
		_, err = unix.Write(fd, []byte("content"))
		p.sayError("write", err)
		p.sayError("sync", unix.Fsync(fd))
		p.say("read %q", p.readAt(fd, 10, 0))
		p.sayError("close", unix.Close(fd))
		p.tryOpen("open again", "file", unix.O_RDONLY)
	})
	p.sayContent("file")
}

func accessTruncate(p *probe) {
	p.makeOwned("file", 0, otherGroup, 0o644)
	p.runAs(user, group, nil, func() {
		p.sayError("truncate", unix.Truncate(p.pathOf("file"), 1))
		p.tryOpen("open with O_TRUNC", "file", unix.O_RDONLY|unix.O_TRUNC)
	})
	p.sayContent("file")
}

// A file's owner can truncate it by a writable descriptor, but not by its name.
func accessTruncateOwn(p *probe) {
	p.mustSucceed(unix.Chmod(p.dir, 0o777))
	p.makeOwned("file", user, group, 0o444)
	p.runAs(user, group, nil, func() {
		p.sayError("truncate", unix.Truncate(p.pathOf("file"), 1))
		p.tryOpen("open with O_TRUNC", "file", unix.O_WRONLY|unix.O_TRUNC)
		fd, err := unix.Open(p.pathOf("new"), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o444)
		p.mustSucceed(err)
		p.sayError("ftruncate", unix.Ftruncate(fd, 1))
		p.mustSucceed(unix.Close(fd))
		p.sayError("truncate", unix.Truncate(p.pathOf("new"), 2))
	})
	p.sayContent("file")
	p.saySize("new")
}

func accessMissing(p *probe) {
	p.makeFile("file", "")
	p.sayError("none", unix.Access(p.pathOf("none"), unix.F_OK))
	p.sayError("below a file", unix.Access(p.pathOf("file/x"), unix.F_OK))
	p.sayError("wrong mode", unix.Access(p.pathOf("file"), 0o10))
}

// In a sticky directory, only owners remove.
func stickyDir(p *probe) {
	p.makeDir("dir")
	p.mustSucceed(unix.Chmod(p.pathOf("dir"), 0o1777))
	p.makeOwned("dir/mine", user, group, 0o666)
	p.makeOwned("dir/yours", otherUser, group, 0o666)
	p.mustSucceed(unix.Mkdir(p.pathOf("dir/sub"), 0o777))
	p.runAs(user, group, nil, func() {
		p.sayError("own", unix.Unlink(p.pathOf("dir/mine")))
		p.sayError("another's", unix.Unlink(p.pathOf("dir/yours")))
		p.sayError("another's directory", unix.Rmdir(p.pathOf("dir/sub")))
	})
	p.mustSucceed(unix.Chown(p.pathOf("dir"), user, group))
	p.runAs(user, group, nil, func() {
		p.sayError("another's, in one's own directory", unix.Unlink(p.pathOf("dir/yours")))
	})
}

func stickyRename(p *probe) {
	p.makeDir("dir")
	p.mustSucceed(unix.Chmod(p.pathOf("dir"), 0o1777))
	p.makeOwned("dir/mine", user, group, 0o666)
	p.makeOwned("dir/yours", otherUser, group, 0o666)
	p.runAs(user, group, nil, func() {
		p.sayError("another's away", unix.Rename(p.pathOf("dir/yours"), p.pathOf("dir/new")))
		p.sayError("over another's", unix.Rename(p.pathOf("dir/mine"), p.pathOf("dir/yours")))
		p.sayError("own", unix.Rename(p.pathOf("dir/mine"), p.pathOf("dir/new")))
	})
}
