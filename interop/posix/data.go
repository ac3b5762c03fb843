package posix

import (
	"strings"

	"golang.org/x/sys/unix"
)

var dataCases = []Case{
	{"data-odd-offsets", anyone, dataOddOffsets},
	{"data-overwrite", anyone, dataOverwrite},
	{"data-end", anyone, dataEnd},
	{"data-small-pieces", anyone, dataSmallPieces},
	{"data-backwards", anyone, dataBackwards},
	{"data-vectors", anyone, dataVectors},
	{"data-two-descriptors", anyone, dataTwoDescriptors},
	{"data-size-at-once", anyone, dataSizeAtOnce},
	{"data-nothing", anyone, dataNothing},
	{"data-seek", anyone, dataSeek},
}

// makePattern returns n nonzero bytes that do not repeat with each page.
func makePattern(n int, seed int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(1 + (i*7+i/251+seed)%255)
	}
	return string(b)
}

// checksum returns the content's checksum.
func checksum(s string) uint32 {
	h := uint32(2166136261)
	for _, c := range []byte(s) {
		h = (h ^ uint32(c)) * 16777619
	}
	return h
}

func dataOddOffsets(p *probe) {
	fd := p.openFD("f", unix.O_CREAT|unix.O_RDWR)
	want := []byte(makePattern(70001, 1))
	p.writeAt(fd, string(want), 0)
	for i, off := range []int{1, 4095, 4096, 4097, 8191, 33333, 65535, 69990} {
		piece := makePattern(11+i*3, i)
		piece = piece[:min(len(piece), len(want)-off)]
		copy(want[off:], piece)
		p.writeAt(fd, piece, int64(off))
	}
	p.say("the same: %v", p.readAt(fd, 80000, 0) == string(want))
	for _, off := range []int{3, 4093, 65533, 69999, 70001} {
		got := p.readAt(fd, 17, int64(off))
		p.say("%d from %d: %v", len(got), off, strings.HasPrefix(string(want[off:]), got))
	}
	p.mustSucceed(unix.Fsync(fd))
	p.say("the same: %v", p.readAt(p.openFD("f", unix.O_RDONLY), 80000, 0) == string(want))
}

func dataOverwrite(p *probe) {
	p.makeFile("f", "0123456789")
	fd := p.openFD("f", unix.O_RDWR)
	p.writeAt(fd, "abc", 3)
	p.sayContent("f")
	p.writeAt(fd, "XYZ!", 8)
	p.sayContent("f")
}

func dataEnd(p *probe) {
	p.makeFile("f", "0123456789")
	fd := p.openFD("f", unix.O_RDONLY)
	for _, off := range []int64{8, 10, 11, 1 << 40} {
		p.say("from %d: %q", off, p.readAt(fd, 5, off))
	}
}

func dataSmallPieces(p *probe) {
	fd := p.openFD("f", unix.O_CREAT|unix.O_WRONLY)
	want := makePattern(5000, 3)
	for off := 0; off < len(want); off += 13 {
		_, err := unix.Write(fd, []byte(want[off:min(off+13, len(want))]))
		p.mustSucceed(err)
	}
	p.saySize("f")
	p.say("the same: %v", p.readAt(p.openFD("f", unix.O_RDONLY), 6000, 0) == want)
}

func dataBackwards(p *probe) {
	fd := p.openFD("f", unix.O_CREAT|unix.O_WRONLY)
	want := makePattern(10000, 4)
	for off := len(want) - 100; off >= 0; off -= 100 {
		p.writeAt(fd, want[off:off+100], int64(off))
	}
	p.say("the same: %v", p.readAt(p.openFD("f", unix.O_RDONLY), 20000, 0) == want)
}

func dataVectors(p *probe) {
	fd := p.openFD("f", unix.O_CREAT|unix.O_RDWR)
	n, err := unix.Writev(fd, [][]byte{[]byte("one "), nil, []byte("two "), []byte("three")})
	p.sayError("writev", err)
	p.say("%d bytes", n)
	a, b := make([]byte, 6), make([]byte, 100)
	n, err = unix.Preadv(fd, [][]byte{a, b}, 1)
	p.sayError("preadv", err)
	p.say("%d bytes: %q %q", n, a, b[:n-6])
}

func dataTwoDescriptors(p *probe) {
	a, b := p.openFD("f", unix.O_CREAT|unix.O_RDWR), p.openFD("f", unix.O_RDWR)
	p.writeAt(a, "hello", 0)
	p.say("%q", p.readAt(b, 10, 0))
	p.writeAt(b, "HELL", 0)
	p.say("%q", p.readAt(a, 10, 0))
	p.mustSucceed(unix.Ftruncate(a, 2))
	p.say("%q", p.readAt(b, 10, 0))
	p.writeAt(b, "end", 5)
	p.say("%q", showBytes(p.readAt(a, 10, 0)))
}

// Every caller sees the right size at once, whether the data are written back
// or not.
func dataSizeAtOnce(p *probe) {
	fd := p.openFD("f", unix.O_CREAT|unix.O_WRONLY)
	for i := range int64(5) {
		p.writeAt(fd, "12345", 1000*i)
		p.say("size %d, by name %d", p.fstat(fd).Size, p.lstat("f").Size)
	}
}

func dataNothing(p *probe) {
	p.makeFile("f", "content")
	fd := p.openFD("f", unix.O_RDWR)
	n, err := unix.Pwrite(fd, nil, 100)
	p.sayError("write", err)
	p.say("%d bytes", n)
	p.saySize("f")
	n, err = unix.Pread(fd, nil, 0)
	p.sayError("read", err)
	p.say("%d bytes", n)
}

func dataSeek(p *probe) {
	p.makeFile("f", "0123456789")
	fd := p.openFD("f", unix.O_RDWR)
	for _, s := range []struct {
		off    int64
		whence int
	}{{3, 0}, {2, 1}, {-1, 2}, {100, 2}, {-200, 1}, {-1, 0}, {0, 9}, {1 << 40, 0}} {
		at, err := unix.Seek(fd, s.off, s.whence)
		p.say("seek %d %d: %d %s", s.off, s.whence, at, errorName(err))
	}
	_, err := unix.Seek(fd, 15, 0)
	p.mustSucceed(err)
	_, err = unix.Write(fd, []byte("x"))
	p.mustSucceed(err)
	p.say("%q", showBytes(p.readAt(fd, 20, 0)))
}
