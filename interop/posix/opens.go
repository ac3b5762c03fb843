package posix

import "golang.org/x/sys/unix"

var openCases = []Case{
	{"open-missing", anyone, openMissing},
	{"open-exclusive", anyone, openExclusive},
	{"open-truncate", anyone, openTruncate},
	{"open-directory", anyone, openDirectory},
	{"open-nofollow", anyone, openNofollow},
	{"open-path", anyone, openPath},
	{"open-wrong-way", anyone, openWrongWay},
	{"open-slash", anyone, openSlash},
}

func openMissing(p *probe) {
	p.makeFile("f", "")
	p.tryOpen("none", "none", unix.O_RDONLY)
	p.tryOpen("below none", "none/x", unix.O_CREAT|unix.O_WRONLY)
	p.tryOpen("below a file", "f/x", unix.O_CREAT|unix.O_WRONLY)
	_, err := unix.Open("", unix.O_RDONLY, 0)
	p.sayError("no name", err)
	p.sayExists("none")
	p.tryOpen("create", "none", unix.O_CREAT|unix.O_WRONLY) // after a lookup that found nothing
	p.sayExists("none")
	p.saySize("none")
}

func openExclusive(p *probe) {
	p.makeFile("f", "x")
	p.makeDir("d")
	p.mustSucceed(unix.Symlink("f", p.pathOf("symlink")))
	p.mustSucceed(unix.Symlink("none", p.pathOf("dangling")))
	for _, name := range []string{"f", "d", "symlink", "dangling", ".", "new", "new"} {
		p.tryOpen(name, name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR)
	}
	p.sayContent("f")
}

func openTruncate(p *probe) {
	p.makeFile("f", "content")
	other := p.openFD("f", unix.O_RDONLY)
	p.tryOpen("to write", "f", unix.O_WRONLY|unix.O_TRUNC)
	p.saySize("f")
	p.say("size by who has it open: %d", p.fstat(other).Size)
	p.makeFile("f", "again")
	p.say("and again: %q", p.readAt(other, 10, 0))
	p.tryOpen("to read", "f", unix.O_RDONLY|unix.O_TRUNC)
	p.saySize("f")
	p.tryOpen("a new one", "new", unix.O_CREAT|unix.O_TRUNC|unix.O_WRONLY)
	p.saySize("new")
}

func openDirectory(p *probe) {
	p.makeFile("f", "")
	p.makeDir("d")
	p.mustSucceed(unix.Symlink("d", p.pathOf("symlink")))
	p.tryOpen("a file as one", "f", unix.O_RDONLY|unix.O_DIRECTORY)
	p.tryOpen("as one", "d", unix.O_RDONLY|unix.O_DIRECTORY)
	p.tryOpen("through a link", "symlink", unix.O_RDONLY|unix.O_DIRECTORY)
	p.tryOpen("to write", "d", unix.O_WRONLY)
	p.tryOpen("to read and write", "d", unix.O_RDWR)
	p.tryOpen("with O_CREAT", "d", unix.O_RDONLY|unix.O_CREAT)
	p.tryOpen("with O_TRUNC", "d", unix.O_RDONLY|unix.O_TRUNC)
	fd := p.openFD("d", unix.O_RDONLY)
	_, err := unix.Read(fd, make([]byte, 10))
	p.sayError("read", err)
	_, err = unix.Pread(fd, make([]byte, 10), 0)
	p.sayError("pread", err)
	_, err = unix.Write(fd, []byte("x"))
	p.sayError("write", err)
	p.sayError("truncate", unix.Ftruncate(fd, 0))
	p.sayError("truncate by name", unix.Truncate(p.pathOf("d"), 0))
	p.sayError("sync", unix.Fsync(fd))
}

func openNofollow(p *probe) {
	p.makeFile("f", "")
	p.makeDir("d")
	p.makeFile("d/f", "")
	p.mustSucceed(unix.Symlink("f", p.pathOf("symlink")))
	p.mustSucceed(unix.Symlink("d", p.pathOf("dirlink")))
	p.tryOpen("a file", "f", unix.O_RDONLY|unix.O_NOFOLLOW)
	p.tryOpen("a link", "symlink", unix.O_RDONLY|unix.O_NOFOLLOW)
	p.tryOpen("a link to a directory", "dirlink", unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY)
	p.tryOpen("below one", "dirlink/f", unix.O_RDONLY|unix.O_NOFOLLOW)
	p.tryOpen("the link itself", "symlink", unix.O_PATH|unix.O_NOFOLLOW)
}

func openPath(p *probe) {
	p.makeFile("f", "content")
	fd := p.openFD("f", unix.O_PATH)
	p.say("size %d", p.fstat(fd).Size)
	_, err := unix.Read(fd, make([]byte, 1))
	p.sayError("read", err)
	p.sayError("chmod", unix.Fchmod(fd, 0o600))
	d := p.openFD(".", unix.O_PATH|unix.O_DIRECTORY)
	f, err := unix.Openat(d, "f", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	p.sayError("open below", err)
	p.mustSucceed(err)
	p.say("read %q", p.readAt(f, 10, 0))
	p.mustSucceed(unix.Close(f))
}

func openWrongWay(p *probe) {
	p.makeFile("f", "content")
	r, w := p.openFD("f", unix.O_RDONLY), p.openFD("f", unix.O_WRONLY)
	_, err := unix.Pwrite(r, []byte("x"), 0)
	p.sayError("write to a reader", err)
	_, err = unix.Pread(w, make([]byte, 1), 0)
	p.sayError("read from a writer", err)
	p.sayError("truncate a reader", unix.Ftruncate(r, 0))
	_, err = unix.Pwrite(w, []byte("x"), -1)
	p.sayError("write below zero", err)
	_, err = unix.Pread(r, make([]byte, 1), -1)
	p.sayError("read below zero", err)
	p.sayContent("f")
}

func openSlash(p *probe) {
	p.makeFile("f", "")
	p.makeDir("d")
	p.tryOpen("a file", "f/", unix.O_RDONLY)
	p.tryOpen("a directory", "d/", unix.O_RDONLY)
	p.tryOpen("a new file", "new/", unix.O_CREAT|unix.O_WRONLY)
	p.tryOpen("many", "d//./../d/", unix.O_RDONLY)
	p.sayEntries("")
}
