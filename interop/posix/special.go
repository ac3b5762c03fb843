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
	p.need(unix.Mkfifo(p.at("fifo"), 0o600))
	r := p.fd("fifo", unix.O_RDONLY|unix.O_NONBLOCK)
	w := p.fd("fifo", unix.O_WRONLY)
	_, err := unix.Write(w, []byte("through"))
	p.result("write", err)
	b := make([]byte, 20)
	n, err := unix.Read(r, b)
	p.result("read", err)
	p.say("%q", b[:n])
	p.size("fifo")
}

func fifoNonblocking(p *probe) {
	p.need(unix.Mkfifo(p.at("fifo"), 0o600))
	p.try("no reader", "fifo", unix.O_WRONLY|unix.O_NONBLOCK)
	r := p.fd("fifo", unix.O_RDONLY|unix.O_NONBLOCK)
	n, err := unix.Read(r, make([]byte, 1))
	p.say("no writer: %d %s", n, word(err))
	_ = p.fd("fifo", unix.O_WRONLY|unix.O_NONBLOCK)
	_, err = unix.Read(r, make([]byte, 1))
	p.result("nothing written", err)
}

func fifoWrong(p *probe) {
	p.file("f", "")
	p.result("existing", unix.Mkfifo(p.at("f"), 0o600))
	p.result("missing", unix.Mkfifo(p.at("none/x"), 0o600))
	p.need(unix.Mkfifo(p.at("fifo"), 0o600))
	fd := p.fd("fifo", unix.O_RDONLY|unix.O_NONBLOCK)
	_, err := unix.Seek(fd, 0, 0)
	p.result("seek", err)
	p.try("as a directory", "fifo", unix.O_RDONLY|unix.O_DIRECTORY)
}

// ofAnother makes special files: one for root only, and one for all.
func (p *probe) ofAnother(typ uint32, dev uint64) {
	for name, mode := range map[string]uint32{"closed": 0o600, "open": 0o666} {
		p.need(unix.Mknod(p.at(name), typ|mode, int(dev)))
		p.need(unix.Chmod(p.at(name), mode))
	}
}

// openAsAnother opens these files as another user, and as root in between.
func (p *probe) openAsAnother() {
	for range 2 {
		p.as(user, group, nil, func() {
			for _, name := range []string{"closed", "open"} {
				p.try("read "+name, name, unix.O_RDONLY|unix.O_NONBLOCK)
				p.try("read and write "+name, name, unix.O_RDWR|unix.O_NONBLOCK)
				p.try("create "+name, name, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CREAT)
				p.try("empty "+name, name, unix.O_RDWR|unix.O_NONBLOCK|unix.O_TRUNC)
			}
			p.try("write closed", "closed", unix.O_WRONLY|unix.O_NONBLOCK)
			p.result("truncate", unix.Truncate(p.at("closed"), 0))
			p.result("access", unix.Access(p.at("closed"), unix.R_OK))
		})
		p.try("as root", "closed", unix.O_RDWR|unix.O_NONBLOCK)
	}
	p.need(unix.Chmod(p.at("closed"), 0o666))
	p.as(user, group, nil, func() { p.try("opened to all", "closed", unix.O_RDWR|unix.O_NONBLOCK) })
}

func fifoOfAnother(p *probe) {
	p.ofAnother(unix.S_IFIFO, 0)
	p.openAsAnother()
}

func fifoOneWay(p *probe) {
	p.need(unix.Mkfifo(p.at("log"), 0o600))
	p.need(unix.Chmod(p.at("log"), 0o622))
	_ = p.fd("log", unix.O_RDONLY|unix.O_NONBLOCK)
	p.as(user, group, nil, func() {
		p.try("read", "log", unix.O_RDONLY|unix.O_NONBLOCK)
		p.try("write", "log", unix.O_WRONLY|unix.O_NONBLOCK)
		p.say("a pipe: %v", p.status("log").Mode&unix.S_IFMT == unix.S_IFIFO)
	})
	p.say("to root a pipe: %v", p.status("log").Mode&unix.S_IFMT == unix.S_IFIFO)
}

// bind makes a socket with a short name, because an address has room for 107
// bytes.
func (p *probe) bind(name string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	p.need(err)
	p.later = append(p.later, func() { _ = unix.Close(fd) })
	return fd, unix.Bind(fd, &unix.SockaddrUnix{Name: name})
}

func socket(p *probe) {
	p.here(".", func() {
		listener, err := p.bind("s")
		p.result("bind", err)
		p.need(unix.Listen(listener, 1))
		caller, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		p.need(err)
		defer unix.Close(caller)
		p.result("connect", unix.Connect(caller, &unix.SockaddrUnix{Name: "s"}))
		fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
		p.result("accept", err)
		p.need(err)
		defer unix.Close(fd)
		_, err = unix.Write(caller, []byte("hello"))
		p.need(err)
		b := make([]byte, 10)
		n, err := unix.Read(fd, b)
		p.need(err)
		p.say("%q", b[:n])
	})
	p.say("a socket: %v", p.status("s").Mode&unix.S_IFMT == unix.S_IFSOCK)
	p.result("unlink", unix.Unlink(p.at("s")))
}

func socketWrong(p *probe) {
	p.file("f", "")
	p.here(".", func() {
		_, err := p.bind("s")
		p.need(err)
		for _, name := range []string{"s", "f", "none/s"} {
			_, err := p.bind(name)
			p.result("bind to "+name, err)
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		p.need(err)
		defer unix.Close(fd)
		for _, name := range []string{"s", "f", "none"} {
			p.result("connect to "+name, unix.Connect(fd, &unix.SockaddrUnix{Name: name}))
		}
	})
	p.try("open", "s", unix.O_RDONLY)
}

// To connect needs write permission, and no other.
func socketOfAnother(p *probe) {
	p.here(".", func() {
		listener, err := p.bind("s")
		p.need(err)
		p.need(unix.Listen(listener, 10))
	})
	for _, mode := range []uint32{0o600, 0o644, 0o622, 0o666, 0o600} {
		p.need(unix.Chmod(p.at("s"), mode))
		for _, who := range []int{user, 0} {
			p.also(func() error {
				return errors.Join(unix.Unshare(unix.CLONE_FS), unix.Chdir(p.dir), become(who, who, nil))
			}, func() {
				fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
				p.need(err)
				defer unix.Close(fd)
				p.result(fmt.Sprintf("user %d, mode %o", who, mode), unix.Connect(fd, &unix.SockaddrUnix{Name: "s"}))
			})
		}
	}
}

func deviceOfAnother(p *probe) {
	p.ofAnother(unix.S_IFCHR, unix.Mkdev(1, 3))
	p.openAsAnother()
}

func device(p *probe) {
	p.need(unix.Mknod(p.at("null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	p.need(unix.Mknod(p.at("zero"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))))
	fd, err := unix.Open(p.at("zero"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	p.result("open", err)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	b := []byte("xxx")
	n, err := unix.Read(fd, b)
	p.say("%d %s %q", n, word(err), b)
	n, err = unix.Write(p.fd("null", unix.O_WRONLY), b)
	p.say("%d %s", n, word(err))
	p.size("null")
}

func deviceNumbers(p *probe) {
	for name, dev := range map[string]uint64{
		"null": unix.Mkdev(1, 3), "large": unix.Mkdev(259, 65537), "larger": unix.Mkdev(4095, 1<<20-1),
	} {
		p.need(unix.Mknod(p.at(name), unix.S_IFBLK|0o600, int(dev)))
	}
	for _, name := range []string{"null", "large", "larger"} {
		st := p.status(name)
		p.say("%s: %d:%d, block %v", name, unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev)), st.Mode&unix.S_IFMT == unix.S_IFBLK)
	}
	p.result("existing", unix.Mknod(p.at("null"), unix.S_IFBLK|0o600, 0))
	p.try("open of no such device", "larger", unix.O_RDONLY)
}

func deviceByUser(p *probe) {
	p.need(unix.Chmod(p.dir, 0o777))
	p.as(user, group, nil, func() {
		p.result("character", unix.Mknod(p.at("c"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
		p.result("block", unix.Mknod(p.at("b"), unix.S_IFBLK|0o600, int(unix.Mkdev(1, 3))))
		p.result("pipe", unix.Mknod(p.at("p"), unix.S_IFIFO|0o600, 0))
		p.result("socket", unix.Mknod(p.at("s"), unix.S_IFSOCK|0o600, 0))
	})
	p.lists("")
}
