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
	p.file("f", "")
	p.try("none", "none", unix.O_RDONLY)
	p.try("below none", "none/x", unix.O_CREAT|unix.O_WRONLY)
	p.try("below a file", "f/x", unix.O_CREAT|unix.O_WRONLY)
	_, err := unix.Open("", unix.O_RDONLY, 0)
	p.result("no name", err)
	p.exists("none")
	p.try("create", "none", unix.O_CREAT|unix.O_WRONLY) // after a lookup that found nothing
	p.exists("none")
	p.size("none")
}

func openExclusive(p *probe) {
	p.file("f", "x")
	p.mkdir("d")
	p.need(unix.Symlink("f", p.at("symlink")))
	p.need(unix.Symlink("none", p.at("dangling")))
	for _, name := range []string{"f", "d", "symlink", "dangling", ".", "new", "new"} {
		p.try(name, name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR)
	}
	p.holds("f")
}

func openTruncate(p *probe) {
	p.file("f", "content")
	other := p.fd("f", unix.O_RDONLY)
	p.try("to write", "f", unix.O_WRONLY|unix.O_TRUNC)
	p.size("f")
	p.say("size by who has it open: %d", p.fstat(other).Size)
	p.file("f", "again")
	p.say("and again: %q", p.read(other, 10, 0))
	p.try("to read", "f", unix.O_RDONLY|unix.O_TRUNC)
	p.size("f")
	p.try("a new one", "new", unix.O_CREAT|unix.O_TRUNC|unix.O_WRONLY)
	p.size("new")
}

func openDirectory(p *probe) {
	p.file("f", "")
	p.mkdir("d")
	p.need(unix.Symlink("d", p.at("symlink")))
	p.try("a file as one", "f", unix.O_RDONLY|unix.O_DIRECTORY)
	p.try("as one", "d", unix.O_RDONLY|unix.O_DIRECTORY)
	p.try("through a link", "symlink", unix.O_RDONLY|unix.O_DIRECTORY)
	p.try("to write", "d", unix.O_WRONLY)
	p.try("to read and write", "d", unix.O_RDWR)
	p.try("with O_CREAT", "d", unix.O_RDONLY|unix.O_CREAT)
	p.try("with O_TRUNC", "d", unix.O_RDONLY|unix.O_TRUNC)
	fd := p.fd("d", unix.O_RDONLY)
	_, err := unix.Read(fd, make([]byte, 10))
	p.result("read", err)
	_, err = unix.Pread(fd, make([]byte, 10), 0)
	p.result("pread", err)
	_, err = unix.Write(fd, []byte("x"))
	p.result("write", err)
	p.result("truncate", unix.Ftruncate(fd, 0))
	p.result("truncate by name", unix.Truncate(p.at("d"), 0))
	p.result("sync", unix.Fsync(fd))
}

func openNofollow(p *probe) {
	p.file("f", "")
	p.mkdir("d")
	p.file("d/f", "")
	p.need(unix.Symlink("f", p.at("symlink")))
	p.need(unix.Symlink("d", p.at("dirlink")))
	p.try("a file", "f", unix.O_RDONLY|unix.O_NOFOLLOW)
	p.try("a link", "symlink", unix.O_RDONLY|unix.O_NOFOLLOW)
	p.try("a link to a directory", "dirlink", unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY)
	p.try("below one", "dirlink/f", unix.O_RDONLY|unix.O_NOFOLLOW)
	p.try("the link itself", "symlink", unix.O_PATH|unix.O_NOFOLLOW)
}

func openPath(p *probe) {
	p.file("f", "content")
	fd := p.fd("f", unix.O_PATH)
	p.say("size %d", p.fstat(fd).Size)
	_, err := unix.Read(fd, make([]byte, 1))
	p.result("read", err)
	p.result("chmod", unix.Fchmod(fd, 0o600))
	d := p.fd(".", unix.O_PATH|unix.O_DIRECTORY)
	f, err := unix.Openat(d, "f", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	p.result("open below", err)
	p.need(err)
	p.say("read %q", p.read(f, 10, 0))
	p.need(unix.Close(f))
}

func openWrongWay(p *probe) {
	p.file("f", "content")
	r, w := p.fd("f", unix.O_RDONLY), p.fd("f", unix.O_WRONLY)
	_, err := unix.Pwrite(r, []byte("x"), 0)
	p.result("write to a reader", err)
	_, err = unix.Pread(w, make([]byte, 1), 0)
	p.result("read from a writer", err)
	p.result("truncate a reader", unix.Ftruncate(r, 0))
	_, err = unix.Pwrite(w, []byte("x"), -1)
	p.result("write below zero", err)
	_, err = unix.Pread(r, make([]byte, 1), -1)
	p.result("read below zero", err)
	p.holds("f")
}

func openSlash(p *probe) {
	p.file("f", "")
	p.mkdir("d")
	p.try("a file", "f/", unix.O_RDONLY)
	p.try("a directory", "d/", unix.O_RDONLY)
	p.try("a new file", "new/", unix.O_CREAT|unix.O_WRONLY)
	p.try("many", "d//./../d/", unix.O_RDONLY)
	p.lists("")
}
