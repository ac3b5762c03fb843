package posix

import (
	"strings"

	"golang.org/x/sys/unix"
)

var truncateCases = []Case{
	{"truncate-down", anyone, truncateDown},
	{"truncate-up", anyone, truncateUp},
	{"truncate-down-and-up", anyone, truncateDownAndUp},
	{"truncate-wrong", anyone, truncateWrong},
	{"truncate-written", anyone, truncateWritten},
}

func truncateDown(p *probe) {
	p.makeFile("f", "0123456789")
	p.sayError("truncate", unix.Truncate(p.pathOf("f"), 4))
	p.sayContent("f")
	p.sayError("ftruncate", unix.Ftruncate(p.openFD("f", unix.O_RDWR), 2))
	p.sayContent("f")
	p.sayError("to nothing", unix.Truncate(p.pathOf("f"), 0))
	p.sayContent("f")
}

func truncateUp(p *probe) {
	p.makeFile("f", "01234")
	p.sayError("truncate", unix.Truncate(p.pathOf("f"), 9000))
	p.saySize("f")
	fd := p.openFD("f", unix.O_RDWR)
	p.say("%q", showBytes(p.readAt(fd, 10000, 0)))
	p.writeAt(fd, "end", 9000)
	p.say("%q", showBytes(p.readAt(fd, 10000, 0)))
}

// Truncated bytes do not return.
func truncateDownAndUp(p *probe) {
	p.makeFile("f", strings.Repeat("x", 9000))
	fd := p.openFD("f", unix.O_RDWR)
	p.readAt(fd, 9000, 0)
	p.mustSucceed(unix.Ftruncate(fd, 5000))
	p.mustSucceed(unix.Ftruncate(fd, 9000))
	p.say("%d zeros", strings.Count(p.readAt(fd, 9000, 0), "\x00"))
	p.writeAt(fd, "y", 8000)
	p.mustSucceed(unix.Fsync(fd))
	p.say("%d zeros", strings.Count(p.readAt(p.openFD("f", unix.O_RDONLY), 9000, 0), "\x00"))
}

func truncateWrong(p *probe) {
	p.makeFile("f", "x")
	p.makeDir("d")
	p.sayError("below zero", unix.Truncate(p.pathOf("f"), -1))
	p.sayError("a directory", unix.Truncate(p.pathOf("d"), 0))
	p.sayError("missing", unix.Truncate(p.pathOf("none"), 0))
	p.sayError("below a file", unix.Truncate(p.pathOf("f/x"), 0))
	p.mustSucceed(unix.Mkfifo(p.pathOf("fifo"), 0o600))
	p.sayError("a pipe", unix.Truncate(p.pathOf("fifo"), 0))
}

// Truncation takes effect after earlier writes.
func truncateWritten(p *probe) {
	fd := p.openFD("f", unix.O_CREAT|unix.O_RDWR)
	p.writeAt(fd, makePattern(20000, 8), 0)
	p.mustSucceed(unix.Truncate(p.pathOf("f"), 10000))
	p.saySize("f")
	p.writeAt(fd, "tail", 10000)
	p.mustSucceed(unix.Fsync(fd))
	p.saySize("f")
	p.say("the same: %v", p.readAt(p.openFD("f", unix.O_RDONLY), 20000, 0) == makePattern(20000, 8)[:10000]+"tail")
}
