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
	p.file("f", "0123456789")
	p.result("truncate", unix.Truncate(p.at("f"), 4))
	p.holds("f")
	p.result("ftruncate", unix.Ftruncate(p.fd("f", unix.O_RDWR), 2))
	p.holds("f")
	p.result("to nothing", unix.Truncate(p.at("f"), 0))
	p.holds("f")
}

func truncateUp(p *probe) {
	p.file("f", "01234")
	p.result("truncate", unix.Truncate(p.at("f"), 9000))
	p.size("f")
	fd := p.fd("f", unix.O_RDWR)
	p.say("%q", brief(p.read(fd, 10000, 0)))
	p.write(fd, "end", 9000)
	p.say("%q", brief(p.read(fd, 10000, 0)))
}

// Truncated bytes do not return.
func truncateDownAndUp(p *probe) {
	p.file("f", strings.Repeat("x", 9000))
	fd := p.fd("f", unix.O_RDWR)
	p.read(fd, 9000, 0)
	p.need(unix.Ftruncate(fd, 5000))
	p.need(unix.Ftruncate(fd, 9000))
	p.say("%d zeros", strings.Count(p.read(fd, 9000, 0), "\x00"))
	p.write(fd, "y", 8000)
	p.need(unix.Fsync(fd))
	p.say("%d zeros", strings.Count(p.read(p.fd("f", unix.O_RDONLY), 9000, 0), "\x00"))
}

func truncateWrong(p *probe) {
	p.file("f", "x")
	p.mkdir("d")
	p.result("below zero", unix.Truncate(p.at("f"), -1))
	p.result("a directory", unix.Truncate(p.at("d"), 0))
	p.result("missing", unix.Truncate(p.at("none"), 0))
	p.result("below a file", unix.Truncate(p.at("f/x"), 0))
	p.need(unix.Mkfifo(p.at("fifo"), 0o600))
	p.result("a pipe", unix.Truncate(p.at("fifo"), 0))
}

// Truncation takes effect after earlier writes.
func truncateWritten(p *probe) {
	fd := p.fd("f", unix.O_CREAT|unix.O_RDWR)
	p.write(fd, pattern(20000, 8), 0)
	p.need(unix.Truncate(p.at("f"), 10000))
	p.size("f")
	p.write(fd, "tail", 10000)
	p.need(unix.Fsync(fd))
	p.size("f")
	p.say("the same: %v", p.read(p.fd("f", unix.O_RDONLY), 20000, 0) == pattern(20000, 8)[:10000]+"tail")
}
