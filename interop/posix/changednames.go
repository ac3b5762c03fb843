package posix

import "golang.org/x/sys/unix"

var changedNameCases = []Case{
	{"change-create", anyone, changeCreate},
	{"change-mkdir", anyone, changeMkdir},
	{"change-link", anyone, changeLink},
	{"change-symlink", anyone, changeSymlink},
	{"change-unlink", anyone, changeUnlink},
	{"change-rename", anyone, changeRename},
	{"change-rename-over", anyone, changeRenameOver},
	{"change-rename-dir", anyone, changeRenameDir},
	{"change-readdir", anyone, changeReaddir},
	{"change-failed", anyone, changeFailed},
}

func changeCreate(p *probe) {
	p.makeDir("dir")
	p.sayChanges("create", []string{"dir", "."}, func() { p.createFile("dir/new", 0o644) })
	st := p.lstat("dir/new")
	// A server may set the mode after the creation, which changes only the ctime.
	p.say("created with one time: %v", st.Atim == st.Mtim && compare(st.Mtim, st.Ctim) <= 0)
	p.sayChanges("mknod", []string{"dir"}, func() { p.mustSucceed(unix.Mkfifo(p.pathOf("dir/fifo"), 0o600)) })
}

func changeMkdir(p *probe) {
	p.makeDir("dir")
	p.sayChanges("mkdir", []string{"dir"}, func() { p.makeDir("dir/sub") })
	p.sayChanges("rmdir", []string{"dir"}, func() { p.mustSucceed(unix.Rmdir(p.pathOf("dir/sub"))) })
}

func changeLink(p *probe) {
	p.makeDir("dir")
	p.makeFile("file", "")
	p.sayChanges("link", []string{"file", "dir", "."}, func() { p.mustSucceed(unix.Link(p.pathOf("file"), p.pathOf("dir/link"))) })
}

func changeSymlink(p *probe) {
	p.makeDir("dir")
	p.sayChanges("symlink", []string{"dir"}, func() { p.mustSucceed(unix.Symlink("x", p.pathOf("dir/symlink"))) })
}

func changeUnlink(p *probe) {
	p.makeDir("dir")
	p.makeFile("dir/file", "")
	p.mustSucceed(unix.Link(p.pathOf("dir/file"), p.pathOf("link")))
	p.sayChanges("unlink", []string{"link", "dir"}, func() { p.mustSucceed(unix.Unlink(p.pathOf("dir/file"))) })
}

func changeRename(p *probe) {
	p.makeDir("a")
	p.makeDir("b")
	p.makeFile("a/file", "")
	p.sayChanges("in a directory", []string{"a/file>a/new", "a"}, func() {
		p.mustSucceed(unix.Rename(p.pathOf("a/file"), p.pathOf("a/new")))
	})
	p.sayChanges("to another", []string{"a/new>b/new", "a", "b"}, func() {
		p.mustSucceed(unix.Rename(p.pathOf("a/new"), p.pathOf("b/new")))
	})
}

func changeRenameOver(p *probe) {
	p.makeFile("new", "")
	p.makeFile("old", "")
	p.mustSucceed(unix.Link(p.pathOf("old"), p.pathOf("old2")))
	p.sayChanges("over a file with another name", []string{"new>old", "old2", "."}, func() {
		p.mustSucceed(unix.Rename(p.pathOf("new"), p.pathOf("old")))
	})
	p.mustSucceed(unix.Link(p.pathOf("old"), p.pathOf("same")))
	p.sayChanges("over itself", []string{"old", "."}, func() { p.mustSucceed(unix.Rename(p.pathOf("old"), p.pathOf("same"))) })
}

func changeRenameDir(p *probe) {
	p.makeDir("a")
	p.makeDir("b")
	p.makeDir("a/sub")
	p.makeFile("a/sub/file", "")
	p.sayChanges("to another", []string{"a/sub/file>b/sub/file", "a", "b"}, func() {
		p.mustSucceed(unix.Rename(p.pathOf("a/sub"), p.pathOf("b/sub")))
	})
}

func changeReaddir(p *probe) {
	p.makeDir("dir")
	p.makeFile("dir/file", "")
	p.sayChanges("readdir", []string{"dir"}, func() { p.readAllEntries(p.openFD("dir", unix.O_RDONLY|unix.O_DIRECTORY)) })
}

func changeFailed(p *probe) {
	p.makeDir("dir")
	p.makeFile("dir/file", "")
	p.sayChanges("what fails", []string{"dir", "dir/file"}, func() {
		p.sayError("mkdir", unix.Mkdir(p.pathOf("dir/file"), 0o755))
		p.sayError("create", func() error {
			_, err := unix.Open(p.pathOf("dir/file"), unix.O_CREAT|unix.O_EXCL, 0o600)
			return err
		}())
		p.sayError("rmdir", unix.Rmdir(p.pathOf("dir/file")))
		p.sayError("unlink", unix.Unlink(p.pathOf("dir/none")))
		p.sayError("rename", unix.Rename(p.pathOf("dir/none"), p.pathOf("dir/file")))
	})
}
