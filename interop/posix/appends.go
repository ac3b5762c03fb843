package posix

import (
	"os"

	"golang.org/x/sys/unix"
)

var appendCases = []Case{
	{"append", anyone, appendOne},
	{"append-two", anyone, appendTwo},
	{"append-positioned", anyone, appendPositioned},
	{"append-after-truncate", anyone, appendAfterTruncate},
	{"append-switched-on", anyone, appendSwitchedOn},
	{"append-at-once", anyone, appendAtOnce},
}

func appendOne(p *probe) {
	p.file("f", "0123")
	fd := p.fd("f", unix.O_RDWR|unix.O_APPEND)
	_, err := unix.Write(fd, []byte("45"))
	p.need(err)
	at, err := unix.Seek(fd, 0, 1)
	p.need(err)
	p.say("offset %d", at)
	_, err = unix.Seek(fd, 0, 0)
	p.need(err)
	_, err = unix.Write(fd, []byte("67"))
	p.need(err)
	p.holds("f")
}

func appendTwo(p *probe) {
	p.file("f", "")
	a, b := p.fd("f", unix.O_WRONLY|unix.O_APPEND), p.fd("f", unix.O_WRONLY|unix.O_APPEND)
	for _, s := range []string{"one ", "two ", "three "} {
		for _, fd := range []int{a, b} {
			_, err := unix.Write(fd, []byte(s))
			p.need(err)
		}
	}
	p.holds("f")
}

// On Linux, a write with a position appends too.
func appendPositioned(p *probe) {
	p.file("f", "0123")
	fd := p.fd("f", unix.O_WRONLY|unix.O_APPEND)
	p.write(fd, "x", 1)
	p.holds("f")
}

func appendAfterTruncate(p *probe) {
	p.file("f", "0123456789")
	fd := p.fd("f", unix.O_WRONLY|unix.O_APPEND)
	p.need(unix.Truncate(p.at("f"), 3))
	_, err := unix.Write(fd, []byte("x"))
	p.need(err)
	p.holds("f")
}

func appendSwitchedOn(p *probe) {
	p.file("f", "0123")
	fd := p.fd("f", unix.O_WRONLY)
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_APPEND)
	p.need(err)
	_, err = unix.Write(fd, []byte("4"))
	p.need(err)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0)
	p.need(err)
	_, err = unix.Seek(fd, 1, 0)
	p.need(err)
	_, err = unix.Write(fd, []byte("!"))
	p.need(err)
	p.holds("f")
}

// Two concurrent appenders on one machine lose nothing.
func appendAtOnce(p *probe) {
	const count = 100
	p.file("f", "")
	ended := make(chan error)
	for range 2 {
		go func() {
			f, err := os.OpenFile(p.at("f"), os.O_WRONLY|os.O_APPEND, 0)
			for i := 0; err == nil && i < count; i++ {
				_, err = f.WriteString("record\n")
			}
			if err == nil {
				err = f.Close()
			}
			ended <- err
		}()
	}
	for range 2 {
		p.result("writer", <-ended)
	}
	p.size("f")
}
