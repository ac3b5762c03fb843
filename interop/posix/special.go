package posix

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

var specialCases = []Case{
	{"fifo", anyone, fifo},
	{"fifo-nonblocking", anyone, fifoNonblocking},
	{"fifo-wrong", anyone, fifoWrong},
	{"fifo-of-another", root, fifoOfAnother},
	{"fifo-one-way", root, fifoOneWay},
	{"socket", anyone, socket},
	{"socket-wrong", anyone, socketWrong},
	{"socket-of-another", root, socketOfAnother},
	{"device", root, device},
	{"device-numbers", root, deviceNumbers},
	{"device-by-user", root, deviceByUser},
	{"device-of-another", root, deviceOfAnother},
}

// Data written to a pipe stay on the machine.
func fifo(p *probe) {
	p.mustSucceed(unix.Mkfifo(p.pathOf("fifo"), 0o600))
	r := p.openFD("fifo", unix.O_RDONLY|unix.O_NONBLOCK)
	w := p.openFD("fifo", unix.O_WRONLY)
	_, err := unix.Write(w, []byte("through"))
	p.sayError("write", err)
	b := make([]byte, 20)
	n, err := unix.Read(r, b)
	p.sayError("read", err)
	p.say("%q", b[:n])
	p.saySize("fifo")
}

func fifoNonblocking(p *probe) {
	p.mustSucceed(unix.Mkfifo(p.pathOf("fifo"), 0o600))
	p.tryOpen("no reader", "fifo", unix.O_WRONLY|unix.O_NONBLOCK)
	r := p.openFD("fifo", unix.O_RDONLY|unix.O_NONBLOCK)
	n, err := unix.Read(r, make([]byte, 1))
	p.say("no writer: %d %s", n, errorName(err))
	_ = p.openFD("fifo", unix.O_WRONLY|unix.O_NONBLOCK)
	_, err = unix.Read(r, make([]byte, 1))
	p.sayError("nothing written", err)
}

func fifoWrong(p *probe) {
	p.makeFile("f", "")
	p.sayError("existing", unix.Mkfifo(p.pathOf("f"), 0o600))
	p.sayError("missing", unix.Mkfifo(p.pathOf("none/x"), 0o600))
	p.mustSucceed(unix.Mkfifo(p.pathOf("fifo"), 0o600))
	fd := p.openFD("fifo", unix.O_RDONLY|unix.O_NONBLOCK)
	_, err := unix.Seek(fd, 0, 0)
	p.sayError("seek", err)
	p.tryOpen("as a directory", "fifo", unix.O_RDONLY|unix.O_DIRECTORY)
}

// ofAnother makes special files: one for root only, and one for all.
func (p *probe) ofAnother(typ uint32, dev uint64) {
	for name, mode := range map[string]uint32{"closed": 0o600, "open": 0o666} {
		p.mustSucceed(unix.Mknod(p.pathOf(name), typ|mode, int(dev)))
		p.mustSucceed(unix.Chmod(p.pathOf(name), mode))
	}
}

// openAsAnother opens these files as another user, and as root in between.
func (p *probe) openAsAnother() {
	for range 2 {
		p.runAs(user, group, nil, func() {
			for _, name := range []string{"closed", "open"} {
				p.tryOpen("read "+name, name, unix.O_RDONLY|unix.O_NONBLOCK)
				p.tryOpen("read and write "+name, name, unix.O_RDWR|unix.O_NONBLOCK)
				p.tryOpen("create "+name, name, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CREAT)
				p.tryOpen("empty "+name, name, unix.O_RDWR|unix.O_NONBLOCK|unix.O_TRUNC)
			}
			p.tryOpen("write closed", "closed", unix.O_WRONLY|unix.O_NONBLOCK)
			p.sayError("truncate", unix.Truncate(p.pathOf("closed"), 0))
			p.sayError("access", unix.Access(p.pathOf("closed"), unix.R_OK))
		})
		p.tryOpen("as root", "closed", unix.O_RDWR|unix.O_NONBLOCK)
	}
	p.mustSucceed(unix.Chmod(p.pathOf("closed"), 0o666))
	p.runAs(user, group, nil, func() { p.tryOpen("opened to all", "closed", unix.O_RDWR|unix.O_NONBLOCK) })
}

func fifoOfAnother(p *probe) {
	p.ofAnother(unix.S_IFIFO, 0)
	p.openAsAnother()
}

func fifoOneWay(p *probe) {
	p.mustSucceed(unix.Mkfifo(p.pathOf("log"), 0o600))
	p.mustSucceed(unix.Chmod(p.pathOf("log"), 0o622))
	_ = p.openFD("log", unix.O_RDONLY|unix.O_NONBLOCK)
	p.runAs(user, group, nil, func() {
		p.tryOpen("read", "log", unix.O_RDONLY|unix.O_NONBLOCK)
		p.tryOpen("write", "log", unix.O_WRONLY|unix.O_NONBLOCK)
		p.say("a pipe: %v", p.lstat("log").Mode&unix.S_IFMT == unix.S_IFIFO)
	})
	p.say("to root a pipe: %v", p.lstat("log").Mode&unix.S_IFMT == unix.S_IFIFO)
}

// bind makes a socket with a short name, because an address has room for 107
// bytes.
func (p *probe) bind(name string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	p.mustSucceed(err)
	p.later = append(p.later, func() { _ = unix.Close(fd) })
	return fd, unix.Bind(fd, &unix.SockaddrUnix{Name: name})
}

func socket(p *probe) {
	p.runIn(".", func() {
		listener, err := p.bind("s")
		p.sayError("bind", err)
		p.mustSucceed(unix.Listen(listener, 1))
		caller, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		p.mustSucceed(err)
		defer unix.Close(caller)
		p.sayError("connect", unix.Connect(caller, &unix.SockaddrUnix{Name: "s"}))
		fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
		p.sayError("accept", err)
		p.mustSucceed(err)
		defer unix.Close(fd)
		_, err = unix.Write(caller, []byte("hello"))
		p.mustSucceed(err)
		b := make([]byte, 10)
		n, err := unix.Read(fd, b)
		p.mustSucceed(err)
		p.say("%q", b[:n])
	})
	p.say("a socket: %v", p.lstat("s").Mode&unix.S_IFMT == unix.S_IFSOCK)
	p.sayError("unlink", unix.Unlink(p.pathOf("s")))
}

func socketWrong(p *probe) {
	p.makeFile("f", "")
	p.runIn(".", func() {
		_, err := p.bind("s")
		p.mustSucceed(err)
		for _, name := range []string{"s", "f", "none/s"} {
			_, err := p.bind(name)
			p.sayError("bind to "+name, err)
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		p.mustSucceed(err)
		defer unix.Close(fd)
		for _, name := range []string{"s", "f", "none"} {
			p.sayError("connect to "+name, unix.Connect(fd, &unix.SockaddrUnix{Name: name}))
		}
	})
	p.tryOpen("open", "s", unix.O_RDONLY)
}

// To connect needs write permission, and no other.
func socketOfAnother(p *probe) {
	p.runIn(".", func() {
		listener, err := p.bind("s")
		p.mustSucceed(err)
		p.mustSucceed(unix.Listen(listener, 10))
	})
	for _, mode := range []uint32{0o600, 0o644, 0o622, 0o666, 0o600} {
		p.mustSucceed(unix.Chmod(p.pathOf("s"), mode))
		for _, who := range []int{user, 0} {
			p.continueOnThread(func() error {
				return errors.Join(unix.Unshare(unix.CLONE_FS), unix.Chdir(p.dir), setUser(who, who, nil))
			}, func() {
				fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
				p.mustSucceed(err)
				defer unix.Close(fd)
				p.sayError(fmt.Sprintf("user %d, mode %o", who, mode), unix.Connect(fd, &unix.SockaddrUnix{Name: "s"}))
			})
		}
	}
}

func deviceOfAnother(p *probe) {
	p.ofAnother(unix.S_IFCHR, unix.Mkdev(1, 3))
	p.openAsAnother()
}

func device(p *probe) {
	p.mustSucceed(unix.Mknod(p.pathOf("null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	p.mustSucceed(unix.Mknod(p.pathOf("zero"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))))
	fd, err := unix.Open(p.pathOf("zero"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	p.sayError("open", err)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	b := []byte("xxx")
	n, err := unix.Read(fd, b)
	p.say("%d %s %q", n, errorName(err), b)
	n, err = unix.Write(p.openFD("null", unix.O_WRONLY), b)
	p.say("%d %s", n, errorName(err))
	p.saySize("null")
}

func deviceNumbers(p *probe) {
	for name, dev := range map[string]uint64{
		"null": unix.Mkdev(1, 3), "large": unix.Mkdev(259, 65537), "larger": unix.Mkdev(4095, 1<<20-1),
	} {
		p.mustSucceed(unix.Mknod(p.pathOf(name), unix.S_IFBLK|0o600, int(dev)))
	}
	for _, name := range []string{"null", "large", "larger"} {
		st := p.lstat(name)
		p.say("%s: %d:%d, block %v", name, unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev)), st.Mode&unix.S_IFMT == unix.S_IFBLK)
	}
	p.sayError("existing", unix.Mknod(p.pathOf("null"), unix.S_IFBLK|0o600, 0))
	p.tryOpen("open of no such device", "larger", unix.O_RDONLY)
}

func deviceByUser(p *probe) {
	p.mustSucceed(unix.Chmod(p.dir, 0o777))
	p.runAs(user, group, nil, func() {
		p.sayError("character", unix.Mknod(p.pathOf("c"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
		p.sayError("block", unix.Mknod(p.pathOf("b"), unix.S_IFBLK|0o600, int(unix.Mkdev(1, 3))))
		p.sayError("pipe", unix.Mknod(p.pathOf("p"), unix.S_IFIFO|0o600, 0))
		p.sayError("socket", unix.Mknod(p.pathOf("s"), unix.S_IFSOCK|0o600, 0))
	})
	p.sayEntries("")
}
