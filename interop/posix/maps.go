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

// mapFile maps a file until the case ends.
func (p *probe) mapFile(fd int, off int64, n, prot, flags int) []byte {
	m, err := unix.Mmap(fd, off, n, prot, flags)
	p.mustSucceed(err)
	p.later = append(p.later, func() { _ = unix.Munmap(m) })
	return m
}

const readWrite = unix.PROT_READ | unix.PROT_WRITE

func mapRead(p *probe) {
	want := makePattern(10000, 1)
	p.makeFile("f", want)
	fd := p.openFD("f", unix.O_RDONLY)
	p.say("the same: %v", string(p.mapFile(fd, 0, 10000, unix.PROT_READ, unix.MAP_SHARED)) == want)
	p.say("from an offset: %v", string(p.mapFile(fd, 4096, 5904, unix.PROT_READ, unix.MAP_PRIVATE)) == want[4096:])
}

func mapShared(p *probe) {
	p.makeFile("f", makePattern(10000, 1))
	fd := p.openFD("f", unix.O_RDWR)
	m := p.mapFile(fd, 0, 10000, readWrite, unix.MAP_SHARED)
	copy(m[4090:], "across pages")
	p.say("read at once: %q", p.readAt(fd, 12, 4090))
	p.sayError("msync", unix.Msync(m, unix.MS_SYNC))
	p.say("by another: %q", p.readAt(p.openFD("f", unix.O_RDONLY), 12, 4090))
	p.saySize("f")
}

func mapPrivate(p *probe) {
	p.makeFile("f", "content")
	fd := p.openFD("f", unix.O_RDONLY)
	m := p.mapFile(fd, 0, 7, readWrite, unix.MAP_PRIVATE)
	copy(m, "CON")
	p.say("mapped %q", m)
	p.sayContent("f")
}

func mapTwo(p *probe) {
	p.makeFile("f", makePattern(5000, 1))
	a := p.mapFile(p.openFD("f", unix.O_RDWR), 0, 5000, readWrite, unix.MAP_SHARED)
	b := p.mapFile(p.openFD("f", unix.O_RDWR), 0, 5000, readWrite, unix.MAP_SHARED)
	copy(a[4090:], "hello")
	p.say("%q", b[4090:4095])
	copy(b[4094:], "world")
	p.say("%q", a[4090:4099])
}

func mapSeesWrites(p *probe) {
	p.makeFile("f", makePattern(5000, 1))
	fd := p.openFD("f", unix.O_RDWR)
	m := p.mapFile(fd, 0, 5000, unix.PROT_READ, unix.MAP_SHARED)
	_ = m[0]
	p.writeAt(fd, "written", 4092)
	p.say("%q", m[4092:4099])
}

// The last page reads as zeros after the file's end, and is not written
// there.
func mapTail(p *probe) {
	p.makeFile("f", "content")
	fd := p.openFD("f", unix.O_RDWR)
	m := p.mapFile(fd, 0, 4096, readWrite, unix.MAP_SHARED)
	p.say("%q", showBytes(string(m)))
	copy(m[7:], "behind")
	p.sayError("msync", unix.Msync(m, unix.MS_SYNC))
	p.saySize("f")
	p.sayContent("f")
}

// isFault reports whether touching a byte is an error.
func isFault(b *byte) (fault bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { fault = recover() != nil }()
	runtime.KeepAlive(*b) // forces the read
	return false
}

func mapBeyondEnd(p *probe) {
	p.makeFile("f", "content")
	m := p.mapFile(p.openFD("f", unix.O_RDONLY), 0, 3*4096, unix.PROT_READ, unix.MAP_SHARED)
	p.say("first page: %v, second: %v", isFault(&m[4000]), isFault(&m[4096]))
}

func mapTruncated(p *probe) {
	p.makeFile("f", makePattern(10000, 1))
	fd := p.openFD("f", unix.O_RDWR)
	m := p.mapFile(fd, 0, 10000, unix.PROT_READ, unix.MAP_SHARED)
	p.say("%v", isFault(&m[9000]))
	p.mustSucceed(unix.Ftruncate(fd, 100))
	p.say("%v", isFault(&m[9000]))
	p.say("%q", showBytes(string(m[98:200]))[2:])
}

func mapGrown(p *probe) {
	p.makeFile("f", "x")
	fd := p.openFD("f", unix.O_RDWR)
	m := p.mapFile(fd, 0, 8192, readWrite, unix.MAP_SHARED)
	p.mustSucceed(unix.Ftruncate(fd, 8192))
	p.say("%v", isFault(&m[8000]))
	copy(m[8000:], "grown")
	p.mustSucceed(unix.Msync(m, unix.MS_SYNC))
	p.say("%q", p.readAt(fd, 5, 8000))
}

func mapClosed(p *probe) {
	p.makeFile("f", "content")
	fd, err := unix.Open(p.pathOf("f"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	p.mustSucceed(err)
	m := p.mapFile(fd, 0, 7, readWrite, unix.MAP_SHARED)
	p.mustSucceed(unix.Close(fd))
	copy(m, "CON")
	p.sayError("msync", unix.Msync(m, unix.MS_SYNC))
	p.sayContent("f")
}

func mapUnlinked(p *probe) {
	p.makeFile("f", makePattern(5000, 1))
	fd, err := unix.Open(p.pathOf("f"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	p.mustSucceed(err)
	m, err := unix.Mmap(fd, 0, 5000, readWrite, unix.MAP_SHARED)
	p.mustSucceed(err)
	p.mustSucceed(unix.Close(fd))
	p.sayError("unlink", unix.Unlink(p.pathOf("f")))
	p.say("the same: %v", string(m) == makePattern(5000, 1))
	copy(m, "written")
	p.sayError("msync", unix.Msync(m, unix.MS_SYNC))
	p.mustSucceed(unix.Munmap(m))
	p.awaitTrue(p.isEmpty)
	p.sayEntries("")
}

func mapHole(p *probe) {
	fd := p.openFD("f", unix.O_CREAT|unix.O_RDWR)
	p.mustSucceed(unix.Ftruncate(fd, 1<<20))
	m := p.mapFile(fd, 0, 1<<20, readWrite, unix.MAP_SHARED)
	copy(m[500000:], "in a hole")
	p.mustSucceed(unix.Msync(m, unix.MS_SYNC))
	p.say("%q", showBytes(p.readAt(p.openFD("f", unix.O_RDONLY), 1<<20, 0)))
}

func mapWrong(p *probe) {
	p.makeFile("f", "content")
	p.makeDir("d")
	for _, w := range []struct {
		what            string
		fd, prot, flags int
	}{
		{"write to a reader", p.openFD("f", unix.O_RDONLY), readWrite, unix.MAP_SHARED},
		{"read from a writer", p.openFD("f", unix.O_WRONLY), unix.PROT_READ, unix.MAP_SHARED},
		{"a directory", p.openFD("d", unix.O_RDONLY), unix.PROT_READ, unix.MAP_SHARED},
	} {
		m, err := unix.Mmap(w.fd, 0, 7, w.prot, w.flags)
		p.sayError(w.what, err)
		if err == nil {
			p.mustSucceed(unix.Munmap(m))
		}
	}
}
