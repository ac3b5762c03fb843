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
	p.mkdir("dir")
	p.changes("create", []string{"dir", "."}, func() { p.create("dir/new", 0o644) })
	st := p.status("dir/new")
	p.say("all its times are one: %v", st.Atim == st.Mtim && st.Mtim == st.Ctim)
	p.changes("mknod", []string{"dir"}, func() { p.need(unix.Mkfifo(p.at("dir/fifo"), 0o600)) })
}

func changeMkdir(p *probe) {
	p.mkdir("dir")
	p.changes("mkdir", []string{"dir"}, func() { p.mkdir("dir/sub") })
	p.changes("rmdir", []string{"dir"}, func() { p.need(unix.Rmdir(p.at("dir/sub"))) })
}

func changeLink(p *probe) {
	p.mkdir("dir")
	p.file("file", "")
	p.changes("link", []string{"file", "dir", "."}, func() { p.need(unix.Link(p.at("file"), p.at("dir/link"))) })
}

func changeSymlink(p *probe) {
	p.mkdir("dir")
	p.changes("symlink", []string{"dir"}, func() { p.need(unix.Symlink("x", p.at("dir/symlink"))) })
}

func changeUnlink(p *probe) {
	p.mkdir("dir")
	p.file("dir/file", "")
	p.need(unix.Link(p.at("dir/file"), p.at("link")))
	p.changes("unlink", []string{"link", "dir"}, func() { p.need(unix.Unlink(p.at("dir/file"))) })
}

func changeRename(p *probe) {
	p.mkdir("a")
	p.mkdir("b")
	p.file("a/file", "")
	p.changes("in a directory", []string{"a/file>a/new", "a"}, func() {
		p.need(unix.Rename(p.at("a/file"), p.at("a/new")))
	})
	p.changes("to another", []string{"a/new>b/new", "a", "b"}, func() {
		p.need(unix.Rename(p.at("a/new"), p.at("b/new")))
	})
}

func changeRenameOver(p *probe) {
	p.file("new", "")
	p.file("old", "")
	p.need(unix.Link(p.at("old"), p.at("old2")))
	p.changes("over a file with another name", []string{"new>old", "old2", "."}, func() {
		p.need(unix.Rename(p.at("new"), p.at("old")))
	})
	p.need(unix.Link(p.at("old"), p.at("same")))
	p.changes("over itself", []string{"old", "."}, func() { p.need(unix.Rename(p.at("old"), p.at("same"))) })
}

func changeRenameDir(p *probe) {
	p.mkdir("a")
	p.mkdir("b")
	p.mkdir("a/sub")
	p.file("a/sub/file", "")
	p.changes("to another", []string{"a/sub/file>b/sub/file", "a", "b"}, func() {
		p.need(unix.Rename(p.at("a/sub"), p.at("b/sub")))
	})
}

func changeReaddir(p *probe) {
	p.mkdir("dir")
	p.file("dir/file", "")
	p.changes("readdir", []string{"dir"}, func() { p.all(p.fd("dir", unix.O_RDONLY|unix.O_DIRECTORY)) })
}

func changeFailed(p *probe) {
	p.mkdir("dir")
	p.file("dir/file", "")
	p.changes("what fails", []string{"dir", "dir/file"}, func() {
		p.result("mkdir", unix.Mkdir(p.at("dir/file"), 0o755))
		p.result("create", func() error {
			_, err := unix.Open(p.at("dir/file"), unix.O_CREAT|unix.O_EXCL, 0o600)
			return err
		}())
		p.result("rmdir", unix.Rmdir(p.at("dir/file")))
		p.result("unlink", unix.Unlink(p.at("dir/none")))
		p.result("rename", unix.Rename(p.at("dir/none"), p.at("dir/file")))
	})
}
