package posix

import (
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

var mapCases = []Case{
	{"map-read", anyone, mapRead},
	{"map-shared", anyone, mapShared},
	{"map-private", anyone, mapPrivate},
	{"map-two", anyone, mapTwo},
	{"map-sees-writes", anyone, mapSeesWrites},
	{"map-tail", anyone, mapTail},
	{"map-beyond-end", anyone, mapBeyondEnd},
	{"map-truncated", anyone, mapTruncated},
	{"map-grown", anyone, mapGrown},
	{"map-closed", anyone, mapClosed},
	{"map-unlinked", anyone, mapUnlinked},
	{"map-hole", anyone, mapHole},
	{"map-wrong", anyone, mapWrong},
}

// mmap maps a file until the end of the case.
func (p *probe) mmap(fd int, off int64, n, prot, flags int) []byte {
	m, err := unix.Mmap(fd, off, n, prot, flags)
	p.need(err)
	p.later = append(p.later, func() { _ = unix.Munmap(m) })
	return m
}

const readWrite = unix.PROT_READ | unix.PROT_WRITE

func mapRead(p *probe) {
	want := pattern(10000, 1)
	p.file("f", want)
	fd := p.fd("f", unix.O_RDONLY)
	p.say("the same: %v", string(p.mmap(fd, 0, 10000, unix.PROT_READ, unix.MAP_SHARED)) == want)
	p.say("from an offset: %v", string(p.mmap(fd, 4096, 5904, unix.PROT_READ, unix.MAP_PRIVATE)) == want[4096:])
}

func mapShared(p *probe) {
	p.file("f", pattern(10000, 1))
	fd := p.fd("f", unix.O_RDWR)
	m := p.mmap(fd, 0, 10000, readWrite, unix.MAP_SHARED)
	copy(m[4090:], "across pages")
	p.say("read at once: %q", p.read(fd, 12, 4090))
	p.result("msync", unix.Msync(m, unix.MS_SYNC))
	p.say("by another: %q", p.read(p.fd("f", unix.O_RDONLY), 12, 4090))
	p.size("f")
}

func mapPrivate(p *probe) {
	p.file("f", "content")
	fd := p.fd("f", unix.O_RDONLY)
	m := p.mmap(fd, 0, 7, readWrite, unix.MAP_PRIVATE)
	copy(m, "CON")
	p.say("mapped %q", m)
	p.holds("f")
}

func mapTwo(p *probe) {
	p.file("f", pattern(5000, 1))
	a := p.mmap(p.fd("f", unix.O_RDWR), 0, 5000, readWrite, unix.MAP_SHARED)
	b := p.mmap(p.fd("f", unix.O_RDWR), 0, 5000, readWrite, unix.MAP_SHARED)
	copy(a[4090:], "hello")
	p.say("%q", b[4090:4095])
	copy(b[4094:], "world")
	p.say("%q", a[4090:4099])
}

func mapSeesWrites(p *probe) {
	p.file("f", pattern(5000, 1))
	fd := p.fd("f", unix.O_RDWR)
	m := p.mmap(fd, 0, 5000, unix.PROT_READ, unix.MAP_SHARED)
	_ = m[0]
	p.write(fd, "written", 4092)
	p.say("%q", m[4092:4099])
}

// The last page reads as zeros after the end of the file, and is not written
// there.
func mapTail(p *probe) {
	p.file("f", "content")
	fd := p.fd("f", unix.O_RDWR)
	m := p.mmap(fd, 0, 4096, readWrite, unix.MAP_SHARED)
	p.say("%q", brief(string(m)))
	copy(m[7:], "behind")
	p.result("msync", unix.Msync(m, unix.MS_SYNC))
	p.size("f")
	p.holds("f")
}

// faults reports whether touching a byte is an error.
func faults(b *byte) (fault bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { fault = recover() != nil }()
	runtime.KeepAlive(*b) // forces the read
	return false
}

func mapBeyondEnd(p *probe) {
	p.file("f", "content")
	m := p.mmap(p.fd("f", unix.O_RDONLY), 0, 3*4096, unix.PROT_READ, unix.MAP_SHARED)
	p.say("first page: %v, second: %v", faults(&m[4000]), faults(&m[4096]))
}

func mapTruncated(p *probe) {
	p.file("f", pattern(10000, 1))
	fd := p.fd("f", unix.O_RDWR)
	m := p.mmap(fd, 0, 10000, unix.PROT_READ, unix.MAP_SHARED)
	p.say("%v", faults(&m[9000]))
	p.need(unix.Ftruncate(fd, 100))
	p.say("%v", faults(&m[9000]))
	p.say("%q", brief(string(m[98:200]))[2:])
}

func mapGrown(p *probe) {
	p.file("f", "x")
	fd := p.fd("f", unix.O_RDWR)
	m := p.mmap(fd, 0, 8192, readWrite, unix.MAP_SHARED)
	p.need(unix.Ftruncate(fd, 8192))
	p.say("%v", faults(&m[8000]))
	copy(m[8000:], "grown")
	p.need(unix.Msync(m, unix.MS_SYNC))
	p.say("%q", p.read(fd, 5, 8000))
}

func mapClosed(p *probe) {
	p.file("f", "content")
	fd, err := unix.Open(p.at("f"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	p.need(err)
	m := p.mmap(fd, 0, 7, readWrite, unix.MAP_SHARED)
	p.need(unix.Close(fd))
	copy(m, "CON")
	p.result("msync", unix.Msync(m, unix.MS_SYNC))
	p.holds("f")
}

func mapUnlinked(p *probe) {
	p.file("f", pattern(5000, 1))
	fd, err := unix.Open(p.at("f"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	p.need(err)
	m, err := unix.Mmap(fd, 0, 5000, readWrite, unix.MAP_SHARED)
	p.need(err)
	p.need(unix.Close(fd))
	p.result("unlink", unix.Unlink(p.at("f")))
	p.say("the same: %v", string(m) == pattern(5000, 1))
	copy(m, "written")
	p.result("msync", unix.Msync(m, unix.MS_SYNC))
	p.need(unix.Munmap(m))
	p.await(p.empty)
	p.lists("")
}

func mapHole(p *probe) {
	fd := p.fd("f", unix.O_CREAT|unix.O_RDWR)
	p.need(unix.Ftruncate(fd, 1<<20))
	m := p.mmap(fd, 0, 1<<20, readWrite, unix.MAP_SHARED)
	copy(m[500000:], "in a hole")
	p.need(unix.Msync(m, unix.MS_SYNC))
	p.say("%q", brief(p.read(p.fd("f", unix.O_RDONLY), 1<<20, 0)))
}

func mapWrong(p *probe) {
	p.file("f", "content")
	p.mkdir("d")
	for _, w := range []struct {
		what            string
		fd, prot, flags int
	}{
		{"write to a reader", p.fd("f", unix.O_RDONLY), readWrite, unix.MAP_SHARED},
		{"read from a writer", p.fd("f", unix.O_WRONLY), unix.PROT_READ, unix.MAP_SHARED},
		{"a directory", p.fd("d", unix.O_RDONLY), unix.PROT_READ, unix.MAP_SHARED},
	} {
		m, err := unix.Mmap(w.fd, 0, 7, w.prot, w.flags)
		p.result(w.what, err)
		if err == nil {
			p.need(unix.Munmap(m))
		}
	}
}
