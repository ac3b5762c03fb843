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
	p.makeFile("f", "0123")
	fd := p.openFD("f", unix.O_RDWR|unix.O_APPEND)
	_, err := unix.Write(fd, []byte("45"))
	p.mustSucceed(err)
	at, err := unix.Seek(fd, 0, 1)
	p.mustSucceed(err)
	p.say("offset %d", at)
	_, err = unix.Seek(fd, 0, 0)
	p.mustSucceed(err)
	_, err = unix.Write(fd, []byte("67"))
	p.mustSucceed(err)
	p.sayContent("f")
}

func appendTwo(p *probe) {
	p.makeFile("f", "")
	a, b := p.openFD("f", unix.O_WRONLY|unix.O_APPEND), p.openFD("f", unix.O_WRONLY|unix.O_APPEND)
	for _, s := range []string{"one ", "two ", "three "} {
		for _, fd := range []int{a, b} {
			_, err := unix.Write(fd, []byte(s))
			p.mustSucceed(err)
		}
	}
	p.sayContent("f")
}

// On Linux, a write with a position appends too.
func appendPositioned(p *probe) {
	p.makeFile("f", "0123")
	fd := p.openFD("f", unix.O_WRONLY|unix.O_APPEND)
	p.writeAt(fd, "x", 1)
	p.sayContent("f")
}

func appendAfterTruncate(p *probe) {
	p.makeFile("f", "0123456789")
	fd := p.openFD("f", unix.O_WRONLY|unix.O_APPEND)
	p.mustSucceed(unix.Truncate(p.pathOf("f"), 3))
	_, err := unix.Write(fd, []byte("x"))
	p.mustSucceed(err)
	p.sayContent("f")
}

func appendSwitchedOn(p *probe) {
	p.makeFile("f", "0123")
	fd := p.openFD("f", unix.O_WRONLY)
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_APPEND)
	p.mustSucceed(err)
	_, err = unix.Write(fd, []byte("4"))
	p.mustSucceed(err)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, 0)
	p.mustSucceed(err)
	_, err = unix.Seek(fd, 1, 0)
	p.mustSucceed(err)
	_, err = unix.Write(fd, []byte("!"))
	p.mustSucceed(err)
	p.sayContent("f")
}

// Two concurrent appenders on one machine lose nothing.
func appendAtOnce(p *probe) {
	const count = 100
	p.makeFile("f", "")
	ended := make(chan error)
	for range 2 {
		go func() {
			f, err := os.OpenFile(p.pathOf("f"), os.O_WRONLY|os.O_APPEND, 0)
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
		p.sayError("writer", <-ended)
	}
	p.saySize("f")
}
